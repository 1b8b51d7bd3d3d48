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
    return x


def _of_arrays(
    x: Any, y: Any, weights: Any, batch_size: int | None, shuffle: bool
) -> tf.data.Dataset:
    parts = [x]
    if y is not None:
        parts.append(y)
        if weights is not None:
            parts.append(weights)
    # Without labels the features alone, not a tuple of one.
    arrays = tf.nest.map_structure(np.asarray, tuple(parts))
    sizes = {len(array) for array in tf.nest.flatten(arrays)}
    if len(sizes) != 1:
        raise ConfigError(
            "All arrays must have as many examples. "
            f"Received: {sorted(sizes)} of them"
        )
    whole = arrays if len(arrays) > 1 else arrays[0]
    dataset = tf.data.Dataset.from_tensor_slices(whole)
    if shuffle:
        dataset = dataset.shuffle(max(1, *sizes))
    return dataset.batch(batch_size or _DEFAULT_BATCH)
