"""Snapshots in the middle of training, while the parameters rest."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from elastic_keras.master.changes import Changes
from elastic_keras.master.shards import ShardCalls
from elastic_keras.master.snapshots import JobSnapshots
from elastic_keras.master.steps import StepBudget


class RestingSnapshots:
    """Lets the parameters rest every so often, and takes a snapshot then.

    Args:
        snapshots: Takes them.
        shards: Flushed before.
        budget: Which steps may start.
        changes: Notified of changes.
        seconds: Pause between snapshots; 0 for none by time.
        state: Completes what the flow knows of the job.
    """

    def __init__(
        self,
        *,
        snapshots: JobSnapshots,
        shards: ShardCalls,
        budget: StepBudget,
        changes: Changes,
        seconds: float,
        state: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._snapshots = snapshots
        self._shards = shards
        self._budget = budget
        self._changes = changes
        self._seconds = seconds
        self._state = state
        self._timer: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the clock of `seconds`."""
        if self._seconds:
            self._timer = asyncio.create_task(self._hold_in_time())

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
        """Stops the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _hold_in_time(self) -> None:
        await asyncio.sleep(self._seconds)
        # One that is being written is not overtaken.
        await self._snapshots.settle()
        self._budget.hold()
        self._changes.notify()
