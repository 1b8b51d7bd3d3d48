"""Finds the trainable variables that a model's loss does not depend on."""

from typing import Any

import keras
import tensorflow as tf

from elastic_keras.layers.context import ZeroRows, lookup_scope
from elastic_keras.worker.batches import as_tensors, spec_of, unpack
from elastic_keras.worker.losses import make_loss


def moves_without_gradient(optimizer: Any) -> bool:
    """Whether a gradient of zero moves a variable that never had another.

    Args:
        optimizer: Keras optimizer, out of any loss scaling, or `None`.
    """
    if isinstance(optimizer, keras.optimizers.Ftrl):
        return True
    return bool(getattr(optimizer, "weight_decay", None))


def unconnected(
    model: keras.Model, loss: Any, sample_batch: Any
) -> frozenset[int]:
    """Traces a training call to find the variables without a gradient.

    Args:
        model: The built model.
        loss: The user's loss.
        sample_batch: A batch as the dataset gives it.

    Returns:
        Positions in `model.trainable_variables`. None where the call cannot
        be traced: the first step tells what is wrong with it.
    """
    batch_spec = spec_of(as_tensors(sample_batch))
    names = list(getattr(model, "output_names", None) or [])
    gradients: list[Any] = []

    def trace(*flat: tf.Tensor) -> None:
        parts = unpack(
            tf.nest.pack_sequence_as(batch_spec, flat, expand_composites=True)
        )
        variables = [variable.value for variable in model.trainable_variables]
        with (
            tf.GradientTape(watch_accessed_variables=False) as tape,
            lookup_scope(ZeroRows()),
        ):
            tape.watch(variables)
            outputs = model(parts.features, training=True)
            total = make_loss(loss, names)(parts.labels, outputs, parts.weights)
            for more in model.losses:
                total += tf.reduce_sum(tf.cast(more, tf.float32))
        gradients.extend(tape.gradient(total, variables))

    flat_spec = tf.nest.flatten(batch_spec, expand_composites=True)
    try:
        # The graph is never run, so the model's state stays as it is.
        tf.function(
            trace, input_signature=flat_spec, autograph=False
        ).get_concrete_function()
    except Exception:
        return frozenset()
    return frozenset(i for i, found in enumerate(gradients) if found is None)
