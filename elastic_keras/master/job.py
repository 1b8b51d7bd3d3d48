"""A job from its first moment to its result."""

import asyncio
import itertools
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from elastic_keras.config import JobConfig
from elastic_keras.master import (
    describe,
    end_checks,
    result,
    status,
    view,
)
from elastic_keras.master.announcer import Announcer
from elastic_keras.master.changes import Changes
from elastic_keras.master.dispatch import Dispatch
from elastic_keras.master.flow import EndedBy, JobFlow
from elastic_keras.master.history import History
from elastic_keras.master.keeper import Keeper
from elastic_keras.master.member_gate import MemberGate
from elastic_keras.master.membership import Membership
from elastic_keras.master.monitor import Monitor
from elastic_keras.master.outcome import JobEnd, failed, outcome_of
from elastic_keras.master.paces import Paces
from elastic_keras.master.ranges import JobRanges
from elastic_keras.master.reading import ReadingFlow
from elastic_keras.master.reserving import Reserving
from elastic_keras.master.resting import RestingSnapshots
from elastic_keras.master.shards import ShardCalls
from elastic_keras.master.showing import show_tables
from elastic_keras.master.side_tasks import wait_until
from elastic_keras.master.snapshots import JobSnapshots
from elastic_keras.master.stats import HeartbeatStats
from elastic_keras.master.steps import StepBudget
from elastic_keras.master.threads import in_thread
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2

_LOGGER = logging.getLogger(__name__)
_STATUS_SECONDS = 0.25
_LAST_WORDS_SECONDS = 2.0
# Heartbeats that a lost worker has missed.
_MISSED = 10
_LEAST_SILENCE = 2.0
_NUMBERS_BITS = 40


class Job:
    """Everything the master knows and does; needs no socket.

    Args:
        config: The job.
        job_dir: Where its result goes.
        shards: The shards.
        scan: Finds the records of the data; runs in a thread.
        clock: Seconds, from any origin.
        landing_seconds: See `Monitor`.
        former: What a former master of this job, or that of the snapshot
            that the job begins with, wrote down; `None` for a new job.
        generation: Masters that this job had before.
    """

    def __init__(
        self,
        config: JobConfig,
        job_dir: str,
        shards: ShardCalls,
        *,
        scan: Callable[[JobConfig], JobRanges],
        clock: Callable[[], float] = time.monotonic,
        landing_seconds: float = 0.25,
        former: Mapping[str, Any] | None = None,
        generation: int = 0,
    ) -> None:
        self.config = config
        self.job_dir = job_dir
        self._shards = shards
        self._scan = scan
        self._clock = clock
        self._start = clock()
        self._end: float | None = None
        self._changes = Changes()
        training, cluster = config.training, config.cluster
        # All numbers grow from one master to the next: whatever a worker or
        # a shard knows of a former one names nothing of this one.
        first = (generation << _NUMBERS_BITS) + 1
        self._leases = itertools.count(first)
        self.generation = generation
        self.workers_wanted = cluster.num_workers
        # Workers that the division of the data into tasks is made for.
        self.planned_for = cluster.num_workers
        if former is not None:
            self.planned_for = former["planned_for"]
        evaluates = bool(config.data.validation_data)
        silence = max(_LEAST_SILENCE, _MISSED * cluster.heartbeat_secs)
        self.membership = Membership(silence, first)
        self._announcer = Announcer(self.membership, shards, self._changes)
        self.dispatch = Dispatch(
            gate=MemberGate(self.membership, self._announcer, clock),
            budget=StepBudget(
                evaluation_steps=training.evaluation_steps * evaluates,
                max_steps=training.max_steps,
                snapshot_steps=config.snapshots.snapshot_steps,
                holds=config.snapshots.holds,
            ),
            changes=self._changes,
            leases=self._leases,
            clock=clock,
        )
        self.reserving = Reserving(self.dispatch, self._changes, clock)
        self.monitor = Monitor(
            dispatch=self.dispatch,
            shards=shards,
            changes=self._changes,
            max_nonfinite=training.max_nonfinite_pushes,
            tick_seconds=min(0.5, cluster.heartbeat_secs),
            landing_seconds=landing_seconds,
            silence_seconds=silence,
            clock=clock,
        )
        self.stats = HeartbeatStats()
        self.paces = Paces()
        self.history = History()
        self.flow: JobFlow | None = None
        # In place of `flow` in a job that trains nothing.
        self.reading: ReadingFlow | None = None
        # Where the trained parameters are.
        self.snapshot = ""
        self.snapshots = JobSnapshots(config, job_dir, shards)
        self.keeper = Keeper(self, job_dir, former)
        self.ranges: JobRanges | None = None
        self.outcome = JobEnd("", "", 0)

    @property
    def over(self) -> bool:
        """Whether the result is there."""
        return self.dispatch.over

    @property
    def phase(self) -> str:
        """`JobStatus.phase`."""
        if self.over:
            return self.outcome.phase
        if self.reading is not None:
            return self.reading.phase
        if self.flow is None or self.dispatch.training is None:
            return "starting"
        return "evaluating" if self.flow.evaluation.running else "training"

    @property
    def seconds(self) -> float:
        """Time since the job's start, up to its end."""
        return self.now - self._start + self.keeper.seconds

    @property
    def training_seconds(self) -> float:
        """Time since the first task, without evaluations."""
        began = self.dispatch.began
        if began is None:
            return self.keeper.training_seconds
        evaluating = self.flow.evaluation.seconds if self.flow else 0.0
        trained = self.now - began + self.keeper.training_seconds
        return trained - evaluating

    @property
    def now(self) -> float:
        """The time; it stands still once the job is over."""
        return self._clock() if self._end is None else self._end

    async def sample(self) -> Any:
        """Waits for the data and returns the first range of it.

        Returns:
            A `data.reader.RecordRange`; `None` if the job is over.
        """
        await wait_until(
            self._changes, lambda: self.ranges is not None or self.over
        )
        return self.ranges.first if self.ranges else None

    def heartbeat(
        self, request: master_pb2.HeartbeatRequest
    ) -> master_pb2.HeartbeatReply:
        """Takes a heartbeat and tells the worker how it stands."""
        info = self.membership.get(request.worker)
        if info is None:
            return master_pb2.HeartbeatReply(unknown=True, stop=self.over)
        self.dispatch.beat(request.worker)
        if request.stop_training:
            self.dispatch.stop_training()
        now = self._clock()
        self.stats.add(info.index, request, now)
        self.paces.add(info.index, request, now)
        if self.flow is not None and self.flow.evaluation.running:
            self.stats.rest()
            self.paces.rest()
        self._changes.notify()
        return master_pb2.HeartbeatReply(
            stop=self.over,
            chief=self.membership.chief == request.worker,
            workers_alive=self.membership.alive,
            stop_training=self.dispatch.stop_wanted,
        )

    def scale(self, num_workers: int) -> None:
        """Takes the number of workers that the job is to have."""
        _LOGGER.info("The job is to have %d workers", num_workers)
        self.workers_wanted = num_workers
        self._changes.notify()

    def stop(self, reason: str) -> None:
        """Ends the job before its time."""
        self.dispatch.fail(JobEnd("stopped", reason, 1))

    async def run(self) -> int:
        """Runs the job; its result is written before anyone is told.

        Returns:
            The exit code: 0, 1 for the user's exception, 2 for wrong use.
        """
        self._announcer.start()
        # Before anyone gets a number: the next master's are to be others.
        await self.keeper.save()
        if self.generation:
            self.dispatch.gate.clear()
        self.monitor.start()
        self.keeper.start()
        work = asyncio.create_task(self._work())
        ended = asyncio.create_task(
            wait_until(self._changes, lambda: self.dispatch.end is not None)
        )
        await asyncio.wait([work, ended], return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        ended.cancel()
        outcome = (await asyncio.gather(work, return_exceptions=True))[0]
        self.outcome = self.dispatch.end or outcome_of(outcome)
        self.snapshots.close()
        await self.keeper.close()
        await self._leave_result()
        await self.monitor.close()
        await self._announcer.close()
        return self.outcome.exit_code

    async def changed(self) -> None:
        """Waits until something has changed."""
        await self._changes.wait()

    def status(self) -> master_pb2.JobStatus:
        """Returns how the job stands."""
        return view.status(self)

    def describe(self) -> master_pb2.JobDescription:
        """Returns how the job stands, and each worker and shard."""
        return describe.describe(self)

    async def watch(self) -> AsyncIterator[master_pb2.JobStatus]:
        """Yields the status when it changes, at most 4 times a second.

        The last one, of a job that is over, always comes.
        """
        last = None
        while True:
            current = self.status()
            if current != last:
                yield current
                last = current
            if status.is_final(current):
                return
            pause = asyncio.create_task(asyncio.sleep(_STATUS_SECONDS))
            while not (self.over or pause.done()):
                change = asyncio.create_task(self._changes.wait())
                await asyncio.wait(
                    [pause, change], return_when=asyncio.FIRST_COMPLETED
                )
                change.cancel()
            pause.cancel()

    async def _work(self) -> None:
        planning = self.config.with_options(num_workers=self.planned_for)
        ranges, _ = await asyncio.gather(
            in_thread(lambda: self._scan(planning)), self._shards.join()
        )
        if self.config.command == "train":
            await self._train(ranges)
        else:
            await self._read(ranges)

    async def _read(self, ranges: JobRanges) -> None:
        self.reading = ReadingFlow(
            dispatch=self.dispatch,
            shards=self._shards,
            changes=self._changes,
            history=self.history,
            command=self.config.command,
            ranges=ranges.prediction or ranges.validation,
            clock=self._clock,
        )
        self.ranges = ranges
        self._changes.notify()
        await self.reading.run()
        await self.monitor.refresh()

    async def _train(self, ranges: JobRanges) -> None:
        _LOGGER.info(
            "%d records in %d tasks, %d to evaluate on",
            sum(r.count for r in ranges.training),
            len(ranges.training),
            sum(r.count for r in ranges.validation),
        )
        self.flow = JobFlow(
            dispatch=self.dispatch,
            shards=self._shards,
            changes=self._changes,
            history=self.history,
            training=self.config.training,
            data=self.config.data,
            seed=self.config.model.seed,
            ranges=ranges.training,
            validation=ranges.validation,
            leases=self._leases,
            resting=RestingSnapshots(
                snapshots=self.snapshots,
                shards=self._shards,
                budget=self.dispatch.budget,
                changes=self._changes,
                options=self.config.snapshots,
                statuses=lambda: self.monitor.statuses,
                state=self.keeper.state,
            ),
            keep=self.keeper.save,
        )
        self.keeper.restore(
            end_checks.newest_epoch(await self._shards.status())
        )
        # Tasks are numbers of these data, to the next master as well.
        await self.keeper.save()
        self.ranges = ranges
        self._changes.notify()
        await self.flow.run()
        await self.monitor.refresh()
        self.monitor.check_nonfinite()
        if self.dispatch.end is not None:
            raise self.dispatch.end
        assert self.dispatch.training is not None
        error = end_checks.ledger_error(
            self.dispatch.training,
            self.monitor.statuses,
            complete=self.flow.ended_by is EndedBy.EPOCHS,
            num_epochs=self.config.training.num_epochs,
        )
        if error is not None:
            raise failed(error)
        await self._save()

    async def _save(self) -> None:
        """Keeps the trained parameters."""
        assert self.dispatch.training is not None
        try:
            path = await self.snapshots.take(
                step=await self._shards.flush(),
                epoch=self.dispatch.training.epochs_done,
                state=self.keeper.state(),
            )
        except (OSError, RpcError) as error:
            raise failed(
                "The job has trained, but its snapshot is lost: its last "
                "parameters cannot be exported. Metrics are in result.json; "
                f"look at logs/ps-*.log. Received: {error}"
            ) from error
        self.snapshot = os.path.relpath(path, self.job_dir)
        _LOGGER.info("Snapshot: %s", path)
        if self.config.monitoring.projector_tables:
            # Before the job is over: the launcher ends this process then.
            await in_thread(lambda: show_tables(self, path))

    async def _leave_result(self) -> None:
        """Writes result.json, then tells everyone."""
        # From here on nothing may change the outcome.
        self.dispatch.end = self.outcome
        if self.outcome.phase != "succeeded":
            try:
                await asyncio.wait_for(
                    self.monitor.refresh(patience=_LAST_WORDS_SECONDS),
                    _LAST_WORDS_SECONDS,
                )
            except (RpcError, asyncio.TimeoutError):
                _LOGGER.warning("Not all shards told their last status")
        self._end = self._clock()
        try:
            result.write(self.job_dir, view.result(self))
        except OSError as error:
            _LOGGER.error("result.json cannot be written: %s", error)
        self.dispatch.over = True
        _LOGGER.info("The job %s", self.outcome.phase)
        self._changes.notify()
