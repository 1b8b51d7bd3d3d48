"""Half-width floats: float32 to float16 or bfloat16 and back.

Rounding is to nearest, ties to even. A finite value too large for the half
type becomes its largest finite one: an overflow must not turn a healthy
gradient into an Inf. NaN and Inf stay what they are, so that a reader's
check for them still finds them.
"""

import ml_dtypes
import numpy as np

_LARGEST = {
    "float16": np.float32(65504.0),
    "bfloat16": np.float32(ml_dtypes.finfo(ml_dtypes.bfloat16).max),
}
_DTYPES = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}


def narrow(array: np.ndarray, wire_dtype: str) -> np.ndarray:
    """Rounds float32 values to a half type.

    Args:
        array: float32 array of any shape.
        wire_dtype: `float16` or `bfloat16`.

    Returns:
        uint16 array of the same shape: the halves' bits.
    """
    dtype, largest = _DTYPES[wire_dtype], _LARGEST[wire_dtype]
    if array.size and not _all_within(array, largest):
        clipped = np.clip(array, -largest, largest)
        array = np.where(np.isinf(array), array, clipped)
    # A signalling NaN is no reason to warn: readers look for NaN.
    with np.errstate(invalid="ignore"):
        return array.astype(dtype, order="C").view(np.uint16)


def widen(bits: np.ndarray, wire_dtype: str) -> np.ndarray:
    """Makes float32 values of a half type's bits; exact.

    Args:
        bits: uint16 array.
        wire_dtype: `float16` or `bfloat16`.

    Returns:
        float32 array of the same shape.
    """
    return bits.view(_DTYPES[wire_dtype]).astype(np.float32)


def _all_within(array: np.ndarray, largest: np.float32) -> bool:
    # Two reductions read the array, a comparison would also write one. A NaN
    # answers False here and is then kept by np.clip.
    return bool(array.max() <= largest and array.min() >= -largest)
