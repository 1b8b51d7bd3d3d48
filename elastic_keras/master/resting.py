"""Snapshots in the middle of training, while the parameters rest."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from elastic_keras.config import SnapshotOptions
from elastic_keras.master.changes import Changes
from elastic_keras.master.shards import ShardCalls
from elastic_keras.master.side_tasks import wait_until
from elastic_keras.master.snapshots import JobSnapshots
from elastic_keras.master.steps import StepBudget
from elastic_keras.wire.proto import ps_pb2


class RestingSnapshots:
    """Lets the parameters rest every so often, and takes a snapshot then.

    Args:
        snapshots: Takes them.
        shards: Flushed before.
        budget: Which steps may start.
        changes: Notified of changes.
        options: When they are due.
        statuses: What the shards said last.
        state: Completes what the flow knows of the job.
    """

    def __init__(
        self,
        *,
        snapshots: JobSnapshots,
        shards: ShardCalls,
        budget: StepBudget,
        changes: Changes,
        options: SnapshotOptions,
        statuses: Callable[[], Sequence[ps_pb2.ShardStatus]],
        state: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._snapshots = snapshots
        self._shards = shards
        self._budget = budget
        self._changes = changes
        self._options = options
        self._statuses = statuses
        self._state = state
        self._timer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts to watch the clock and the journals."""
        if self._options.holds:
            self._timer = asyncio.create_task(self._hold_when_due())

    async def take(self, epoch: int) -> None:
        """Takes a snapshot; call it only while no step is under way.

        Args:
            epoch: The epoch.
        """
        step = await self._shards.flush()
        await self._snapshots.begin(
            step=step, epoch=epoch + 1, state=self._state()
        )
        self._budget.go_on()
        self._changes.notify()
        self.close()
        self.start()

    def close(self) -> None:
        """Stops watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _hold_when_due(self) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(
                self._journal_full(), self._options.snapshot_secs or None
            )
        # One that is being written is not overtaken.
        await self._snapshots.settle()
        self._budget.hold()
        self._changes.notify()

    async def _journal_full(self) -> None:
        limit = self._options.journal_limit
        # A snapshot that is complete shortens them: what was said before
        # does not count.
        await self._snapshots.settle()
        before = self._statuses()
        # One that failed left them as they are: not again at every poll.
        if limit and self._snapshots.trouble:
            limit += max((s.journal_bytes for s in before), default=0)

        def is_full() -> bool:
            now = self._statuses()
            return now is not before and any(
                0 < limit <= status.journal_bytes for status in now
            )

        await wait_until(self._changes, is_full)
