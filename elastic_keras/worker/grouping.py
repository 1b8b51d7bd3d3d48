"""A batch's ids of one table, grouped by the shard that owns them."""

import dataclasses

import numpy as np

from elastic_keras import routing


@dataclasses.dataclass(frozen=True)
class GroupedIds:
    """Unique ids of one table, those of shard 0 first, then shard 1, ...

    Args:
        ids: int64, shape (n,).
        bounds: Shard s owns `ids[bounds[s] : bounds[s + 1]]`.
    """

    ids: np.ndarray
    bounds: tuple[int, ...]

    def of_shard(self, shard: int) -> slice:
        """Returns where the ids (and rows) of a shard lie."""
        return slice(self.bounds[shard], self.bounds[shard + 1])


def group(
    ids: np.ndarray, num_shards: int
) -> tuple[GroupedIds, np.ndarray | None]:
    """Groups a table's ids by owner.

    Args:
        ids: Unique int64 ids, shape (n,).
        num_shards: Number of shards.

    Returns:
        The grouped ids, and for each position in `ids` its position in the
        grouped order, int32, shape (n,); `None` where both orders are the same.
    """
    if num_shards == 1:
        return GroupedIds(ids, (0, len(ids))), None
    order, counts = routing.partition(ids, num_shards)
    bounds = (0, *(int(end) for end in np.cumsum(counts)))
    rank = np.empty(len(ids), np.int32)
    rank[order] = np.arange(len(ids), dtype=np.int32)
    return GroupedIds(ids[order], bounds), rank
