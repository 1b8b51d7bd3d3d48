"""Whether a user's dataset is batched already, and batches if not."""

from typing import Any

import numpy as np
import tensorflow as tf

from elastic_keras.config import ConfigError

_OPAQUE = (
    "FlatMap",
    "Interleave",
    "GroupByWindow",
    "Window",
    "Generator",
    "Choose",
    "DirectedInterleave",
)


def batched(
    dataset: tf.data.Dataset,
    minibatch_size: int,
    raw: tf.data.Dataset | None = None,
) -> tf.data.Dataset:
    """Returns a dataset of batches.

    A dataset is batched if its last batching step is not undone by an
    `unbatch`. Where a `flat_map`, `interleave` or the like hides what
    happens, shapes decide: it is batched if no component is a scalar and
    every first dimension is unknown.

    Args:
        dataset: What a `dataset_fn` returned.
        minibatch_size: Examples in a batch if it is not batched. Components
            of varying length are padded with zeros, ragged and sparse ones
            stay so.
        raw: What the `dataset_fn` was given.
    """
    if is_batched(dataset, raw):
        return dataset
    specs = tf.nest.flatten(dataset.element_spec)
    if _needs_padding(specs):
        return dataset.padded_batch(minibatch_size)
    return dataset.batch(minibatch_size)


def is_batched(
    dataset: tf.data.Dataset, raw: tf.data.Dataset | None = None
) -> bool:
    """Tells whether a dataset's elements are batches; see `batched`."""
    step: Any = dataset
    while step is not raw:
        name = type(step).__name__
        if "Unbatch" in name:
            return False
        if "batch" in name.lower():
            return True
        inputs = _inputs(step)
        if any(word in name for word in _OPAQUE) or not inputs:
            return _batched_by_shape(dataset)
        step = inputs[0]
    return False


def check_order(
    dataset: tf.data.Dataset, raw: tf.data.Dataset | None = None
) -> None:
    """Refuses a dataset that is not made of its records alone.

    Raises:
        ConfigError: A step of it is declared not to be deterministic, or
            keeps elements in a file.
    """
    steps: list[Any] = [dataset]
    while steps:
        step = steps.pop()
        if step is raw:
            continue
        _check_cache(step)
        if getattr(step, "_deterministic", None) == "false":
            raise ConfigError(
                "The batches of a task must be the same ones each time it is "
                "read; leave deterministic=False out of dataset_fn. "
                f"Received: {type(step).__name__} with deterministic=False"
            )
        steps.extend(_inputs(step))


def _check_cache(step: Any) -> None:
    name = type(step).__name__
    if name == "CacheDataset":
        file = _text(step._filename)
        if not file:
            return
    elif "Snapshot" in name:
        file = _text(step._path)
    else:
        return
    raise ConfigError(
        "What dataset_fn keeps in a file would be taken for the next task's "
        "records; leave cache(filename) and snapshot() out, or say cache(). "
        f"Received: {name} in {file!r}"
    )


def _text(tensor: tf.Tensor) -> str:
    """Returns a constant's text, also within a trace."""
    value = np.asarray(tf.get_static_value(tensor), object).item()
    return value.decode() if isinstance(value, bytes) else "a file"


def _inputs(dataset: Any) -> list[Any]:
    try:
        return list(dataset._inputs())
    except (AttributeError, NotImplementedError):
        return []


def _batched_by_shape(dataset: tf.data.Dataset) -> bool:
    specs = tf.nest.flatten(dataset.element_spec)
    shapes = [spec.shape for spec in specs if hasattr(spec, "shape")]
    if any(shape.rank == 0 for shape in shapes):
        return False
    return all(shape.rank is None or shape[0] is None for shape in shapes)


def _needs_padding(specs: list[Any]) -> bool:
    if not all(isinstance(spec, tf.TensorSpec) for spec in specs):
        return False
    return any(
        spec.shape.rank is not None and None in spec.shape.as_list()
        for spec in specs
    )
