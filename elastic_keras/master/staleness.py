"""The staleness of all shards' pushes together."""

import dataclasses
import itertools
from collections.abc import Sequence

from elastic_keras.wire.proto import ps_pb2


@dataclasses.dataclass(frozen=True)
class Staleness:
    """Staleness of every push that was applied, over all shards.

    Args:
        max: The largest.
        mean: The mean.
        histogram: Entry i: pushes of staleness i, up to the largest; the
            last entry that a shard has counts everything beyond, too.
    """

    max: int = 0
    mean: float = 0.0
    histogram: tuple[int, ...] = ()


def total(statuses: Sequence[ps_pb2.ShardStatus]) -> Staleness:
    """Adds up what the shards report.

    Args:
        statuses: The status of each shard.
    """
    counts = [
        sum(column)
        for column in itertools.zip_longest(
            *(status.staleness_counts for status in statuses), fillvalue=0
        )
    ]
    while counts and not counts[-1]:
        counts.pop()
    histogram = tuple(counts)
    pushes = sum(histogram)
    summed = sum(status.staleness_sum for status in statuses)
    return Staleness(
        max=max((status.staleness_max for status in statuses), default=0),
        mean=summed / pushes if pushes else 0.0,
        histogram=histogram,
    )
