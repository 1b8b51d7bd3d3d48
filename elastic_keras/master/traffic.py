"""How many bytes each shard hands out and takes in a second."""

import collections
from collections.abc import Sequence
from typing import NamedTuple

from elastic_keras.wire.proto import ps_pb2


class Rate(NamedTuple):
    """Bytes a second.

    Args:
        pulled: Parameters handed out.
        pushed: Gradients taken.
    """

    pulled: float
    pushed: float


class Traffic:
    """Tells from the shards' counts how busy they are at present.

    Args:
        window: Seconds over which the present rate is taken.
    """

    def __init__(self, window: float = 10.0) -> None:
        self._window = window
        self._recent: collections.deque[
            tuple[float, Sequence[ps_pb2.ShardStatus]]
        ] = collections.deque()

    def add(self, statuses: Sequence[ps_pb2.ShardStatus], now: float) -> None:
        """Takes what all shards report.

        Args:
            statuses: The status of each shard.
            now: The time.
        """
        self._recent.append((now, statuses))
        # The one before the window stays: it is where the window begins.
        while len(self._recent) > 2 and self._recent[1][0] <= (
            now - self._window
        ):
            self._recent.popleft()

    def rates(self) -> list[Rate]:
        """Returns the rate of each shard; of none before two reports."""
        if len(self._recent) < 2:
            return []
        (began, before), (ended, after) = self._recent[0], self._recent[-1]
        seconds = max(ended - began, 1e-3)
        # A shard that was started again counts from 0.
        return [
            Rate(
                max(new.pulled_bytes - old.pulled_bytes, 0) / seconds,
                max(new.pushed_bytes - old.pushed_bytes, 0) / seconds,
            )
            for old, new in zip(before, after, strict=True)
        ]
