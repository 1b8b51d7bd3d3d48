"""The parts of a nested structure, by name."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf


def named_parts(nested: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Gives the leaves of dicts, lists and tuples; `None` is none.

    Args:
        nested: The structure.
        name: Its own name.

    Yields:
        Names such as `features['user']`, and the leaves.
    """
    if isinstance(nested, dict):
        for key, part in nested.items():
            yield from named_parts(part, f"{name}[{key!r}]")
    elif isinstance(nested, list | tuple):
        for index, part in enumerate(nested):
            yield from named_parts(part, f"{name}[{index}]")
    elif nested is not None:
        yield name, nested


def bounds(value: Any) -> tuple[float, float] | None:
    """Returns the least and the largest number of a tensor.

    Args:
        value: A leaf of a structure.

    Returns:
        Both; `None` where it holds no numbers, or is ragged or sparse.
    """
    if not isinstance(value, tf.Tensor):
        return None
    numbers = value.dtype.is_floating or value.dtype.is_integer
    if not numbers or not tf.size(value):
        return None
    array = value.numpy()
    return float(np.min(array)), float(np.max(array))
