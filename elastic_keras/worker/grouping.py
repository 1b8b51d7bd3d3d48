"""A batch's ids of one table: each once, grouped by the shard that owns it."""

import dataclasses

import numba
import numpy as np

from elastic_keras.owner_kernel import mix, owner

_ONE = np.uint64(1)


@dataclasses.dataclass(frozen=True)
class GroupedIds:
    """Unique ids of one table, those of shard 0 first, then shard 1, ...

    Args:
        ids: int64, shape (u,).
        bounds: Shard s owns `ids[bounds[s] : bounds[s + 1]]`.
    """

    ids: np.ndarray
    bounds: tuple[int, ...]

    def of_shard(self, shard: int) -> slice:
        """Returns where the ids (and rows) of a shard lie."""
        return slice(self.bounds[shard], self.bounds[shard + 1])


def group(ids: np.ndarray, num_shards: int) -> tuple[GroupedIds, np.ndarray]:
    """Makes a table's ids unique and groups them by owner.

    Args:
        ids: int64 ids of all lookups, shape (n,).
        num_shards: Number of shards.

    Returns:
        The grouped ids, in the order of their first appearance within a
        shard; and for each lookup its position among them, int32, shape (n,).
    """
    read = np.ascontiguousarray(ids, np.int64).view()
    # Kernels are compiled for one kind of array only.
    read.flags.writeable = False
    n = len(read)
    # At most half full, so that few ids meet.
    buckets = np.zeros(1 << (2 * n + 1).bit_length(), np.int32)
    unique = np.empty(n, np.int64)
    inverse = np.empty(n, np.int32)
    count = _make_unique(read, buckets, unique, inverse)
    if num_shards == 1:
        return GroupedIds(unique[:count], (0, count)), inverse
    bounds = np.zeros(num_shards + 1, np.int64)
    grouped = np.empty(count, np.int64)
    _group(unique[:count], inverse, np.uint64(num_shards), bounds, grouped)
    return GroupedIds(grouped, tuple(bounds.tolist())), inverse


@numba.njit(nogil=True, cache=True)
def _make_unique(
    ids: np.ndarray,
    buckets: np.ndarray,
    unique: np.ndarray,
    inverse: np.ndarray,
) -> int:
    """Fills `unique` and `inverse`; returns the number of unique ids.

    `buckets` is a hash table of positions in `unique`, plus 1.
    """
    mask = np.uint64(len(buckets) - 1)
    count = 0
    for i in range(len(ids)):
        row_id = ids[i]
        bucket = mix(row_id) & mask
        while True:
            place = buckets[bucket]
            if place == 0:
                unique[count] = row_id
                inverse[i] = count
                count += 1
                buckets[bucket] = count
                break
            if unique[place - 1] == row_id:
                inverse[i] = place - 1
                break
            bucket = (bucket + _ONE) & mask
    return count


@numba.njit(nogil=True, cache=True)
def _group(
    unique: np.ndarray,
    inverse: np.ndarray,
    num_shards: np.uint64,
    bounds: np.ndarray,
    grouped: np.ndarray,
) -> None:
    """Fills `bounds` and `grouped`; brings `inverse` to the new order."""
    shards = np.empty(len(unique), np.uint16)
    for i in range(len(unique)):
        shard = owner(mix(unique[i]), num_shards)
        shards[i] = shard
        bounds[shard + _ONE] += 1
    for i in range(1, len(bounds)):
        bounds[i] += bounds[i - 1]
    at = bounds[:-1].copy()
    rank = np.empty(len(unique), np.int32)
    for i in range(len(unique)):
        place = at[shards[i]]
        at[shards[i]] = place + 1
        grouped[place] = unique[i]
        rank[i] = place
    for i in range(len(inverse)):
        inverse[i] = rank[inverse[i]]
