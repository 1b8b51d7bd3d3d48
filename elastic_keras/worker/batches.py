"""The parts of a batch and the specs of datasets."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from elastic_keras.config import ConfigError

# `tf.NoneTensorSpec`, which TensorFlow 2.18 and 2.19 do not export.
_NoneSpec = type(tf.type_spec_from_value(None))


class Batch(NamedTuple):
    """A batch, taken apart by Keras's rule.

    Args:
        features: What the model is called on.
        labels: `None` where the dataset has none.
        weights: Sample weights, or `None`.
    """

    features: Any
    labels: Any
    weights: Any


def unpack(element: Any) -> Batch:
    """Takes apart what a dataset gives: a tuple of up to three, or features.

    Raises:
        ConfigError: The tuple has more parts.
    """
    if isinstance(element, tuple | list) and len(element) > 3:
        raise ConfigError(
            "dataset_fn gives features, (features, labels) or (features, "
            f"labels, sample_weights). Received: {len(element)} parts"
        )
    return Batch(
        *(
            None if is_none_spec(part) else part
            for part in keras.utils.unpack_x_y_sample_weight(element)
        )
    )


def is_none_spec(part: Any) -> bool:
    """Returns whether this is what stands for `None` in a dataset's spec."""
    return isinstance(part, _NoneSpec)


def open_batch(spec: Any) -> Any:
    """Returns `spec` with the size of the batch left open.

    Args:
        spec: Nested `tf.TypeSpec`s of batches.

    Raises:
        ConfigError: Something in it has no batch axis.
    """
    return tf.nest.map_structure(_open, spec)


def as_tensors(element: Any) -> Any:
    """Returns nested arrays or tensors as tensors."""
    return tf.nest.map_structure(
        lambda part: part if tf.is_tensor(part) else tf.convert_to_tensor(part),
        element,
    )


def spec_of(element: Any) -> Any:
    """Returns the spec of a batch of tensors or arrays, its size open."""
    return open_batch(
        tf.nest.map_structure(tf.type_spec_from_value, as_tensors(element))
    )


def _open(spec: tf.TypeSpec) -> tf.TypeSpec:
    if is_none_spec(spec):
        return spec
    if not isinstance(
        spec, tf.TensorSpec | tf.SparseTensorSpec | tf.RaggedTensorSpec
    ):
        raise ConfigError(
            "A batch holds dense, ragged or sparse tensors. "
            f"Received: a part of spec {spec}"
        )
    shape = spec.shape
    if shape.rank is None:
        return spec
    if shape.rank == 0:
        raise ConfigError(
            "dataset_fn gives batches: every part has the batch as its "
            f"first axis. Received: a part of spec {spec}"
        )
    opened = tf.TensorShape([None]).concatenate(shape[1:])
    if isinstance(spec, tf.TensorSpec):
        return tf.TensorSpec(opened, spec.dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        return tf.SparseTensorSpec(opened, spec.dtype)
    return tf.RaggedTensorSpec(
        opened,
        spec.dtype,
        spec.ragged_rank,
        spec.row_splits_dtype,
        spec.flat_values_spec,
    )
