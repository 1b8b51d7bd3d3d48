"""Clipping of gradients, inside the compiled step, as in Keras."""

import tensorflow as tf

from elastic_keras.worker.optimizers import Clipping


def clip(
    gradients: list[tf.Tensor], groups: list[int], clippings: list[Clipping]
) -> list[tf.Tensor]:
    """Clips each gradient as its optimizer asks.

    A table's gradient is that of its unique rows: the others are zero and
    add nothing to a norm.

    Args:
        gradients: One tensor per variable or table.
        groups: Position of each one's optimizer.
        clippings: What each optimizer asks for.
    """
    clipped = list(gradients)
    for group, clipping in enumerate(clippings):
        members = [i for i, other in enumerate(groups) if other == group]
        if not members:
            continue
        for i, gradient in zip(
            members,
            _clip_group([gradients[i] for i in members], clipping),
            strict=True,
        ):
            clipped[i] = gradient
    return clipped


def _clip_group(
    gradients: list[tf.Tensor], clipping: Clipping
) -> list[tf.Tensor]:
    if clipping.clipnorm is not None:
        return [_by_norm(g, clipping.clipnorm) for g in gradients]
    if clipping.global_clipnorm is not None:
        return _by_global_norm(gradients, clipping.global_clipnorm)
    if clipping.clipvalue is not None:
        limit = clipping.clipvalue
        return [tf.clip_by_value(g, -limit, limit) for g in gradients]
    return gradients


def _by_norm(gradient: tf.Tensor, limit: float) -> tf.Tensor:
    norm = tf.sqrt(tf.reduce_sum(tf.square(gradient)))
    return gradient * limit / tf.maximum(norm, limit)


def _by_global_norm(
    gradients: list[tf.Tensor], limit: float
) -> list[tf.Tensor]:
    squares = [tf.reduce_sum(tf.square(g)) for g in gradients]
    norm = tf.sqrt(tf.add_n(squares))
    scale = limit * tf.minimum(1.0 / norm, 1.0 / limit)
    return [gradient * scale for gradient in gradients]
