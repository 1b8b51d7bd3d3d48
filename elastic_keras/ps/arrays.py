"""Checks of arrays on their way into kernels."""

import numpy as np


def frozen(
    array: np.ndarray,
    dtype: type,
    name: str,
    shape: tuple[int, ...] | None = None,
) -> np.ndarray:
    """Returns a read-only, contiguous view of an array that kernels read.

    Arrays from the wire are read-only and arrays from NumPy are not; kernels
    are compiled for one kind only.

    Args:
        array: The array.
        dtype: The dtype that it must have.
        name: What to call it in an error.
        shape: The shape that it must have, or `None` for any 1-D one.

    Raises:
        ValueError: Another dtype or shape.
    """
    array = np.asarray(array)
    if array.dtype != dtype:
        raise ValueError(
            f"{name} must have dtype {np.dtype(dtype).name}. "
            f"Received: dtype={array.dtype.name}"
        )
    if shape is None and array.ndim != 1:
        raise ValueError(f"{name} must be 1-D. Received: shape={array.shape}")
    if shape is not None and array.shape != shape:
        raise ValueError(
            f"{name} must have shape {shape}. Received: shape={array.shape}"
        )
    view = np.require(array, requirements=["C", "A"]).view()
    view.flags.writeable = False
    return view
