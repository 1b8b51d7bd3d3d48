"""What the shards report while a job runs."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from elastic_keras.master import end_checks, staleness
from elastic_keras.master.changes import Changes
from elastic_keras.master.dispatch import Dispatch
from elastic_keras.master.outcome import failed
from elastic_keras.master.shards import ShardCalls
from elastic_keras.master.side_tasks import wait_until
from elastic_keras.master.steps import TaskKey
from elastic_keras.master.traffic import Traffic
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import ps_pb2

_LOGGER = logging.getLogger(__name__)
_POLL_SECONDS = 1.0
_PATIENCE = 5.0
_ASKED_AT_ONCE = 64


class Monitor:
    """Polls the shards, loses silent workers, settles lost steps.

    Args:
        dispatch: The workers' side of the job.
        shards: The shards.
        changes: Notified of changes.
        max_nonfinite: `--max_nonfinite_pushes`.
        tick_seconds: Pause between looks at the heartbeats.
        landing_seconds: What a worker sent before it died has reached a
            shard within this time.
        silence_seconds: After which a worker is lost.
        clock: Seconds, from any origin.
    """

    def __init__(
        self,
        *,
        dispatch: Dispatch,
        shards: ShardCalls,
        changes: Changes,
        max_nonfinite: int,
        tick_seconds: float,
        landing_seconds: float,
        silence_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dispatch = dispatch
        self._shards = shards
        self._changes = changes
        self._max_nonfinite = max_nonfinite
        self._tick_seconds = tick_seconds
        self._landing_seconds = landing_seconds
        self._silence_seconds = silence_seconds
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        # While a job starts, shards are not there yet.
        self._answered = False
        self.statuses: list[ps_pb2.ShardStatus] = []
        self.staleness = staleness.Staleness()
        self.traffic = Traffic()

    def start(self) -> None:
        """Starts watching."""
        self._tasks = [
            asyncio.create_task(self._forever(part))
            for part in (
                self._poll,
                self._watch_workers,
                self._settle,
            )
        ]

    async def close(self) -> None:
        """Stops watching."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def refresh(self, *, patience: float | None = None) -> None:
        """Asks every shard for its status.

        Args:
            patience: Seconds to try; `None` tries until all answer.

        Raises:
            RpcError: A shard did not answer in that time.
        """
        self.statuses = await self._shards.status(patience=patience)
        self._answered = True
        self.staleness = staleness.total(self.statuses)
        self.traffic.add(self.statuses, self._clock())
        self._changes.notify()

    def check_nonfinite(self) -> None:
        """Fails the job where gradients held too many a NaN or Inf."""
        error = end_checks.nonfinite_error(self.statuses, self._max_nonfinite)
        if error is not None:
            self._dispatch.fail(failed(error))

    async def _poll(self) -> None:
        # A shard that is restarting is the launcher's business.
        await self.refresh(patience=_PATIENCE)
        self.check_nonfinite()
        await asyncio.sleep(_POLL_SECONDS)

    async def _watch_workers(self) -> None:
        self._dispatch.lose_silent()
        await asyncio.sleep(self._tick_seconds)

    async def _settle(self) -> None:
        """Finds out how many steps of lost workers were done."""
        dispatch = self._dispatch
        budget = dispatch.budget
        await wait_until(self._changes, lambda: budget.asks_ledgers)
        await self._wait_for_former_workers()
        await self._wait_for_landings()
        bitmaps: list[tuple[TaskKey, list[bytes]]] = []
        tasks = sorted(dispatch.lost_tasks)
        for start in range(0, len(tasks), _ASKED_AT_ONCE):
            some = tasks[start : start + _ASKED_AT_ONCE]
            maps = await asyncio.gather(
                *(self._shards.progress(*task) for task in some)
            )
            bitmaps += zip(some, maps, strict=True)
        # What no shard has heard of is in good order.
        begun = [(task, maps) for task, maps in bitmaps if any(maps)]
        dispatch.lost_tasks.intersection_update(task for task, _ in begun)
        statuses = await self._shards.status()
        # No step runs until this is settled, so all answers agree.
        budget.resolve(
            end_checks.steps_done(statuses, [maps for _, maps in begun]),
            {task: end_checks.unfinished(maps) for task, maps in begun},
        )
        self._changes.notify()

    async def _wait_for_former_workers(self) -> None:
        """Waits for workers that a former master granted steps.

        Each joins again once its steps have landed, or is gone.
        """
        former = self._dispatch.former
        waited = asyncio.create_task(
            wait_until(self._changes, lambda: not former)
        )
        done, _ = await asyncio.wait([waited], timeout=self._silence_seconds)
        if not done:
            waited.cancel()
            _LOGGER.warning("Workers have not come back: %s", sorted(former))
            former.clear()

    async def _wait_for_landings(self) -> None:
        before: list[int] = []
        while True:
            statuses = await self._shards.status()
            now = [end_checks.steps_done([status]) for status in statuses]
            if now == before:
                return
            before = now
            await asyncio.sleep(self._landing_seconds)

    async def _forever(self, part: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await part()
            except RpcError as error:
                level = logging.WARNING if self._answered else logging.INFO
                _LOGGER.log(level, "A shard does not answer: %s", error)
                await asyncio.sleep(_POLL_SECONDS)
            except Exception as error:
                _LOGGER.exception("The master failed")
                self._dispatch.fail(failed(f"The master failed: {error!r}"))
                return
