"""What `fit`, `evaluate` and `predict` are given, as batches."""

from typing import Any

import numpy as np
import tensorflow as tf

from elastic_keras.config import ConfigError

_DEFAULT_BATCH = 32


def as_dataset(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
) -> tf.data.Dataset:
    """Returns a dataset of batches.

    Args:
        x: A `tf.data.Dataset` of batches, taken as it is, or nested arrays
            of shape `(examples, ...)`.
        y: Labels for arrays, nested likewise.
        sample_weight: Their weights.
        batch_size: Examples in a batch of arrays; 32 by default.
        shuffle: Whether arrays are shuffled, anew in each epoch.

    Raises:
        ConfigError: Arguments that do not go together, or no end.
    """
    if not isinstance(x, tf.data.Dataset):
        return _of_arrays(x, y, sample_weight, batch_size, shuffle)
    for name, value in (
        ("y", y),
        ("sample_weight", sample_weight),
        ("batch_size", batch_size),
    ):
        if value is not None:
            raise ConfigError(
                "A dataset has labels, weights and batches of its own. "
                f"Received: {name} beside a tf.data.Dataset"
            )
    if int(x.cardinality()) == tf.data.INFINITE_CARDINALITY:
        raise ConfigError(
            "The dataset has no end; leave repeat() out, or take(n). "
            f"Received: x={x!r}"
        )
    for spec in tf.nest.flatten(x.element_spec):
        if getattr(spec, "shape", None) == ():
            raise ConfigError(
                "A dataset gives batches: call batch(batch_size) on it. "
                f"Received: a dataset of {x.element_spec}"
            )
    return x


def labelled(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns a dataset that has labels.

    Args:
        dataset: Batches.

    Raises:
        ConfigError: It has none.
    """
    spec = dataset.element_spec
    if not isinstance(spec, tuple) or len(spec) < 2:
        raise ConfigError(
            "Labels are needed: give y, or a dataset of (features, labels). "
            f"Received: batches of {spec}"
        )
    return dataset


def split(arrays: Any, fraction: float) -> tuple[Any, Any]:
    """Splits arrays, as Keras does: the last examples are held out.

    Args:
        arrays: Nested arrays of shape `(examples, ...)`, and `None`.
        fraction: Of the examples, to hold out; between 0 and 1.

    Raises:
        ConfigError: There are no arrays, or nothing would be left of them.
    """
    if isinstance(arrays[0], tf.data.Dataset):
        raise ConfigError(
            "validation_split is for arrays; give validation_data. "
            f"Received: validation_split={fraction} beside a dataset"
        )
    arrays = tf.nest.map_structure(
        lambda part: None if part is None else np.asarray(part),
        _as_tuples(arrays),
    )
    size = min(len(x) for x in tf.nest.flatten(arrays) if x is not None)
    first = int(np.floor(size * (1.0 - fraction)))
    if not 0 < first < size:
        raise ConfigError(
            "validation_split leaves examples on both sides. "
            f"Received: validation_split={fraction} of {size} examples"
        )

    def part(begin: int, end: int | None) -> Any:
        return tf.nest.map_structure(
            lambda array: None if array is None else array[begin:end], arrays
        )

    return part(0, first), part(first, None)


def _of_arrays(
    x: Any, y: Any, weights: Any, batch_size: int | None, shuffle: bool
) -> tf.data.Dataset:
    parts = [x]
    if y is not None:
        parts.append(y)
        if weights is not None:
            parts.append(weights)
    # Features alone are a tuple of one: they may be a tuple themselves.
    arrays = tf.nest.map_structure(np.asarray, _as_tuples(tuple(parts)))
    if any(array.ndim == 0 for array in tf.nest.flatten(arrays)):
        raise ConfigError(
            "Features and labels are arrays (examples, ...) or nested "
            f"arrays. Received: x of type {type(x).__name__}"
        )
    sizes = {len(array) for array in tf.nest.flatten(arrays)}
    if len(sizes) != 1:
        raise ConfigError(
            "All arrays must have as many examples. "
            f"Received: {sorted(sizes)} of them"
        )
    if sizes == {0}:
        raise ConfigError(
            "There must be at least one example. Received: arrays of length 0"
        )
    dataset = tf.data.Dataset.from_tensor_slices(arrays)
    if shuffle:
        dataset = dataset.shuffle(max(1, *sizes))
    return dataset.batch(batch_size or _DEFAULT_BATCH)


def _as_tuples(nested: Any) -> Any:
    """Returns nested arrays with tuples for lists: a dataset's lists stack."""
    if isinstance(nested, dict):
        return {name: _as_tuples(part) for name, part in nested.items()}
    if isinstance(nested, list | tuple):
        return tuple(map(_as_tuples, nested))
    return nested
