"""`routing.mix` and `routing.owners` of one id, for compiled loops.

numba's cache on disk follows changes of the file of a cached function only:
whoever edits this file must delete the `*.nbi` files of its callers.
"""

import numba
import numpy as np

from elastic_keras import routing

_SHIFT_1, _SHIFT_2, _SHIFT_3 = (np.uint64(s) for s in routing.MIX_SHIFTS)
_MULTIPLIER_1, _MULTIPLIER_2 = (np.uint64(m) for m in routing.MIX_MULTIPLIERS)
_LOW_BITS = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@numba.njit(nogil=True, cache=True)
def mix(row_id: int) -> np.uint64:
    """Returns the hash of an id."""
    x = np.uint64(row_id)
    x = (x ^ (x >> _SHIFT_1)) * _MULTIPLIER_1
    x = (x ^ (x >> _SHIFT_2)) * _MULTIPLIER_2
    return x ^ (x >> _SHIFT_3)


@numba.njit(nogil=True, cache=True)
def owner(mixed: np.uint64, num_shards: np.uint64) -> np.uint64:
    """Returns the shard of the id that a hash came from."""
    return ((mixed & _LOW_BITS) * num_shards) >> _HALF
