"""The user's loss as one number per batch."""

import inspect
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from elastic_keras.config import ConfigError

Loss = Callable[[Any, Any, Any], tf.Tensor]


def make_loss(loss: Any, output_names: list[str] | None = None) -> Loss:
    """Returns `(labels, predictions, weights) -> float32 scalar`.

    Args:
        loss: A function of (labels, predictions) that gives a scalar or one
            value per example, a Keras loss or its name; or a dict or list of
            such, one per output, which are added up. A function that has an
            argument `sample_weight` gets the weights; else they multiply the
            values per example, whose mean over all elements is taken, as in
            Keras.
        output_names: Names of the model's outputs, for a dict of losses of a
            model whose predictions are a list.

    Raises:
        ConfigError: It is none of these.
    """
    if isinstance(loss, dict):
        parts = {name: make_loss(part) for name, part in loss.items() if part}
        return _Outputs(parts, output_names or [])
    if isinstance(loss, list | tuple):
        return _Outputs(
            {index: make_loss(part) for index, part in enumerate(loss) if part},
            [],
        )
    if isinstance(loss, str):
        loss = keras.losses.get(loss)
    if isinstance(loss, keras.losses.Loss):
        return _KerasLoss(loss)
    if callable(loss):
        return _FunctionLoss(loss)
    raise ConfigError(
        "loss is a function (labels, predictions), a Keras loss, or a dict "
        f"or list of them. Received: loss of type {type(loss).__name__}"
    )


class _KerasLoss:
    def __init__(self, loss: keras.losses.Loss) -> None:
        self._loss = loss

    def __call__(self, labels: Any, predictions: Any, weights: Any) -> Any:
        value = self._loss(labels, predictions, sample_weight=weights)
        # With reduction=None there is a value per example.
        return tf.reduce_mean(tf.cast(value, tf.float32))


class _FunctionLoss:
    """A function, with what Keras's `compile` puts around one.

    Labels and predictions are brought to the same rank, and a mask of the
    predictions leaves its elements out of the mean.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._takes_weights = _has_argument(function, "sample_weight")

    def __call__(self, labels: Any, predictions: Any, weights: Any) -> Any:
        mask = getattr(predictions, "_keras_mask", None)
        labels, predictions = _same_rank(labels, predictions)
        if weights is not None and self._takes_weights:
            value = self._function(labels, predictions, sample_weight=weights)
            weights = None
        else:
            value = self._function(labels, predictions)
        value = tf.cast(value, tf.float32)
        if value.shape.rank == 0:
            if weights is None:
                return value
            raise ConfigError(
                "Sample weights need one loss value per example: return those "
                "from loss, or take an argument sample_weight. "
                "Received: a scalar loss"
            )
        if weights is not None:
            value *= _as_factor(weights, value.shape.rank)
        if mask is not None:
            kept = _as_factor(mask, value.shape.rank)
            value *= tf.math.divide_no_nan(kept, tf.reduce_mean(kept))
        return tf.reduce_mean(value)


def _same_rank(labels: Any, predictions: Any) -> tuple[Any, Any]:
    """Gives or takes a last axis of length 1, as Keras does.

    Left as they are, labels of shape (n,) and predictions of (n, 1) would
    make (n, n) differences.
    """
    if not (tf.is_tensor(labels) and tf.is_tensor(predictions)):
        return labels, predictions
    if _has_one_more(predictions, labels):
        return _fit(labels, predictions)
    if _has_one_more(labels, predictions):
        predictions, labels = _fit(predictions, labels)
    return labels, predictions


def _has_one_more(longer: Any, shorter: Any) -> bool:
    ranks = longer.shape.rank, shorter.shape.rank
    if None in ranks or ranks[0] != ranks[1] + 1:
        return False
    return bool(longer.shape[-1] == 1)


def _fit(shorter: Any, longer: Any) -> tuple[Any, Any]:
    if shorter.shape.rank == 1:
        return tf.expand_dims(shorter, -1), longer
    return shorter, tf.squeeze(longer, -1)


def _as_factor(weights: Any, rank: int) -> tf.Tensor:
    """Returns weights or a mask to multiply values of a rank with."""
    weights = tf.cast(weights, tf.float32)
    if weights.shape.rank > rank:
        weights = tf.squeeze(weights, axis=-1)
    while weights.shape.rank < rank:
        weights = weights[..., None]
    return weights


class _Outputs:
    """The sum of one loss per output."""

    def __init__(self, parts: dict[Any, Loss], output_names: list[str]) -> None:
        self._parts = parts
        self._output_names = output_names

    def __call__(self, labels: Any, predictions: Any, weights: Any) -> Any:
        total = tf.zeros([], tf.float32)
        for key, loss in self._parts.items():
            total += loss(
                pick(labels, key, self._output_names),
                pick(predictions, key, self._output_names),
                self._weights_of(weights, key),
            )
        return total

    def _weights_of(self, weights: Any, key: Any) -> Any:
        if isinstance(weights, dict | list | tuple):
            return pick(weights, key, self._output_names)
        return weights


def pick(parts: Any, key: Any, output_names: list[str]) -> Any:
    """Returns the part of an output, by its name or position.

    Raises:
        ConfigError: There is no such part.
    """
    if isinstance(parts, dict) and key in parts:
        return parts[key]
    if isinstance(parts, list | tuple):
        if isinstance(key, int) and key < len(parts):
            return parts[key]
        if key in output_names and output_names.index(key) < len(parts):
            return parts[output_names.index(key)]
    if tf.is_tensor(parts) and key in (0, *output_names[:1]):
        return parts
    held = sorted(parts) if isinstance(parts, dict) else type(parts).__name__
    raise ConfigError(
        f"A loss or metric names an output that is not there; there is {held}. "
        f"Received: output {key!r}"
    )


def _has_argument(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
