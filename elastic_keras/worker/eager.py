"""Between NumPy arrays and eager tensors, without a copy where possible."""

from typing import Any

import numpy as np
import tensorflow as tf

from elastic_keras.worker.aligned import is_aligned


def as_array(tensor: Any) -> np.ndarray:
    """Returns an eager tensor's values."""
    return np.asarray(memoryview(tensor))


def as_tensor(array: np.ndarray) -> tf.Tensor:
    """Returns an array as an eager tensor.

    Args:
        array: Must not change any more: the tensor may lie in its memory,
            which it then keeps.
    """
    if array.size and is_aligned(array):
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.constant(array)
