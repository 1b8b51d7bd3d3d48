"""Checks of whole arrays, compiled; none of them holds the GIL."""

import numba
import numpy as np

from elastic_keras.owner_kernel import mix, owner
from elastic_keras.ps.arrays import frozen


@numba.njit(nogil=True, cache=True)
def _first_of_other_shard(ids: np.ndarray, shard: int, shards: int) -> int:
    wanted = np.uint64(shard)
    count = np.uint64(shards)
    for i in range(ids.size):
        if owner(mix(ids[i]), count) != wanted:
            return i
    return -1


@numba.njit(nogil=True, cache=True)
def _first_repeated(ids: np.ndarray, slots: np.ndarray) -> int:
    # `slots` is a hash set of positions + 1, a power of two long.
    mask = np.uint64(slots.size - 1)
    for i in range(ids.size):
        place = mix(ids[i]) & mask
        while slots[place] != 0:
            if ids[slots[place] - 1] == ids[i]:
                return i
            place = (place + np.uint64(1)) & mask
        slots[place] = i + 1
    return -1


def first_of_other_shard(ids: np.ndarray, shard: int, num_shards: int) -> int:
    """Returns the position of the first id that another shard owns, or -1.

    Args:
        ids: int64, shape (n,).
        shard: This shard.
        num_shards: Number of shards.
    """
    ids = frozen(ids, np.int64, "ids")
    return int(_first_of_other_shard(ids, shard, num_shards))


def first_repeated(ids: np.ndarray) -> int:
    """Returns the position of the first id that came before, or -1.

    Args:
        ids: int64, shape (n,).
    """
    slots = np.zeros(1 << (2 * ids.size + 1).bit_length(), np.int32)
    return int(_first_repeated(frozen(ids, np.int64, "ids"), slots))


def all_finite(values: np.ndarray) -> bool:
    """Returns whether no value is NaN or Inf.

    Args:
        values: float32, any shape.
    """
    return bool(np.isfinite(values).all())


def warm_up() -> None:
    """Compiles the checks, or loads them from numba's cache."""
    ids = np.arange(2, dtype=np.int64)
    first_repeated(ids)
    first_of_other_shard(ids, 0, 2)
