"""Arrays that TensorFlow takes as they are, without a copy."""

import math

import numpy as np

# What TensorFlow's kernels want of an array's address.
_ALIGNMENT = 64


def empty(shape: tuple[int, ...]) -> np.ndarray:
    """Returns a float32 array to fill, at an address that fits."""
    size = 4 * math.prod(shape)
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + size].view(np.float32).reshape(shape)


def is_aligned(array: np.ndarray) -> bool:
    """Returns whether TensorFlow can take an array without a copy.

    DLPack, by which it does, has no read-only arrays.
    """
    return (
        array.flags.writeable
        and array.flags.c_contiguous
        and array.ctypes.data % _ALIGNMENT == 0
    )
