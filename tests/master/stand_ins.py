"""Workers that live in the test's event loop."""

import asyncio
import dataclasses
import json
import random

import numpy as np

from elastic_keras.config import JobConfig
from elastic_keras.data.reader import RecordRange
from elastic_keras.master.job import Job
from elastic_keras.master.ranges import JobRanges
from elastic_keras.master.servicer import task_message
from elastic_keras.wire import tensors
from elastic_keras.wire.errors import Refused
from elastic_keras.wire.proto import master_pb2

BATCH = 2


@dataclasses.dataclass
class Habits:
    """What a stand-in worker does beside its duty.

    Args:
        has_callbacks: Its module has callbacks.
        pace: Random pauses, up to this many turns of the event loop.
        release: Chance that it hands a task back half-way.
        fail: Called with a task, may return a traceback.
        stop_after: `on_epoch_end` of this epoch asks to stop.
        stop_at_test: `on_test_end` asks to stop.
        stop_at: A hook around this (epoch, task, batch) asks to stop.
        evaluation: Called with the step, gives the metric's value.
        evaluates: Whether a filter leaves it anything to evaluate.
    """

    has_callbacks: bool = False
    pace: int = 3
    release: float = 0.0
    fail: object = None
    stop_after: int | None = None
    stop_at_test: bool = False
    stop_at: tuple[int, int, int] | None = None
    evaluation: object = None
    evaluates: bool = True


class StandInWorker:
    """Trains as a worker does: prefetches tasks, reserves, pulls, pushes.

    Args:
        job: The job.
        shards: Its shards.
        index: Its index.
        rng: Where randomness comes from.
        habits: What else it does.
    """

    def __init__(self, job, shards, index, rng=None, habits=None):
        self.job = job
        self.shards = shards
        self.index = index
        self.rng = rng or random.Random(0)
        self.habits = habits or Habits()
        self.hooks = []
        self.trained = []
        self.evaluated = []
        self.dead = False
        self._member = 0
        self._step = 0
        self._granted = 0
        self._calls = 0
        self._counts_steps = job.config.counts_steps

    async def run(self):
        await self.job.sample()
        self.number = self.job.dispatch.join(
            self.index, has_callbacks=self.habits.has_callbacks
        ).number
        tasks = asyncio.Queue(1)
        feeder = asyncio.create_task(self._feed(tasks))
        try:
            while (task := await tasks.get()) is not None:
                await self._do(task)
        except Refused:
            pass
        finally:
            feeder.cancel()
            await asyncio.gather(feeder, return_exceptions=True)

    async def _feed(self, tasks):
        while True:
            try:
                task = await self._get_task(False)
            except Refused:
                await tasks.put(None)
                return
            if asyncio.current_task().cancelling():
                # `asyncio.wait_for` may swallow a cancellation.
                raise asyncio.CancelledError
            if task.kind == master_pb2.TASK_STOP:
                await tasks.put(None)
                return
            if task.kind != master_pb2.TASK_WAIT:
                await tasks.put(task)

    async def _get_task(self, interrupted):
        self._calls += 1
        answer = await self.job.dispatch.get_task(
            self.number, interrupted=interrupted, call=self._calls, timeout=9
        )
        return task_message(answer)

    async def _do(self, task):
        if task.kind == master_pb2.TASK_TRAIN:
            await self._train(task)
        elif task.kind == master_pb2.TASK_EVALUATE:
            await self._pause()
            self.evaluated.append((task.range.source, task.range.start))
            kept = self.habits.evaluates * task.range.count
            self._report(task, states=states(task.range), examples=kept)
        elif task.kind == master_pb2.TASK_MERGE:
            await self._pause()
            self._report(task, result=json.dumps(self._merge(task)))
        else:
            assert task.kind == master_pb2.TASK_CALLBACK
            self.hooks.append((task.hook, task.epoch, json.loads(task.logs)))
            stop = (
                task.hook == "on_epoch_end"
                and task.epoch == self.habits.stop_after
            )
            stop = stop or (
                task.hook == "on_test_end" and self.habits.stop_at_test
            )
            self._report(task, result=json.dumps({"stop": stop}))

    async def _train(self, task):
        self._join_as(task.member)
        count = task.range.count
        error = self.habits.fail and self.habits.fail(task)
        for batch in range(-(-count // BATCH)):
            examples = min(BATCH, count - batch * BATCH)
            await self._pause()
            if self.rng.random() < self.habits.release or error:
                self._report(task, released=not error, error=error or "")
                return
            key = (task.epoch, task.task, batch)
            if self.shards.has(key):
                assert task.resumed
                continue
            # Told by the answer to a heartbeat.
            if self._heartbeat().stop_training or not await self._reserve():
                part = states(task.range, batch * BATCH)
                self._report(task, released=True, states=part)
                return
            if not await self._step_once(key, examples):
                self._report(task, released=True)
                return
            if key == self.habits.stop_at:
                self._heartbeat(stop_training=True)
        self.trained.append((task.epoch, task.task))
        self._report(
            task,
            records=count,
            examples=count,
            batches=-(-count // BATCH),
            states=states(task.range),
        )

    def _heartbeat(self, **fields):
        return self.job.heartbeat(
            master_pb2.HeartbeatRequest(worker=self.number, **fields)
        )

    async def _step_once(self, key, examples):
        for shard in range(self.shards.count):
            if not await self.shards.pull(shard, self._member, self._step):
                self._settle(returned=1)
                return False
        new = False
        for shard in range(self.shards.count):
            await self._pause()
            pushed = self.shards.push(shard, key, examples, self._member)
            new = new or pushed
        self._step += 1
        self._settle(done=int(new), returned=int(not new))
        return True

    async def _reserve(self):
        if not self._counts_steps:
            return True
        while not self._granted:
            reply = await self._call_reserve(want=2)
            self._granted += reply.granted
            self._join_as(reply.member)
            if reply.stop:
                return False
            if reply.evaluate:
                while True:
                    task = await self._get_task(True)
                    if task.kind in (
                        master_pb2.TASK_WAIT,
                        master_pb2.TASK_STOP,
                    ):
                        break
                    await self._do(task)
        self._granted -= 1
        return True

    def _settle(self, **counts):
        if self._counts_steps:
            # What only settles is answered without a wait.
            coroutine = self._call_reserve(want=0, **counts)
            try:
                coroutine.send(None)
            except StopIteration:
                return
            except Refused:
                return
            raise AssertionError("want=0 waited")

    async def _call_reserve(self, **fields):
        self._calls += 1
        return await self.job.reserving.reserve(
            master_pb2.ReserveStepsRequest(
                worker=self.number, call=self._calls, **fields
            ),
            9.0,
        )

    def _join_as(self, member):
        if member > self._member:
            self._member = member
            self._step = 0

    def _report(self, task, **fields):
        if task.kind == master_pb2.TASK_TRAIN and self._granted:
            granted, self._granted = self._granted, 0
            self._settle(returned=granted)
        self.job.dispatch.report(
            master_pb2.ReportTaskRequest(
                worker=self.number, lease=task.lease, **fields
            )
        )

    def _merge(self, task):
        total, count = (
            tensors.decode(t, name="state")
            for t in task.states.metrics["loss"].tensors
        )
        # Like Keras's `Mean`, 0 where every task was handed back half-way.
        loss = float(total) / max(float(count), 1.0)
        if self.habits.evaluation is not None:
            loss = self.habits.evaluation(task.step)
        return {"loss": loss}

    async def _pause(self):
        await self._turns()
        if self.dead:
            raise asyncio.CancelledError

    async def _turns(self):
        for _ in range(self.rng.randint(0, self.habits.pace)):
            await asyncio.sleep(0)


def states(record_range, count=None):
    """Metric states of a range: the sum and number of its records' numbers.

    Args:
        record_range: The range.
        count: Only its first so many records.
    """
    count = record_range.count if count is None else count
    numbers = range(record_range.start, record_range.start + count)
    made = master_pb2.MetricStates()
    made.metrics["loss"].tensors.extend(
        [
            tensors.encode(np.float32(sum(numbers))),
            tensors.encode(np.int64(len(numbers))),
        ]
    )
    return made


def ranges(*counts, source="data"):
    """Ranges of these many records, one after another."""
    starts = np.cumsum((0, *counts))
    return [
        RecordRange(source, int(start), count)
        for start, count in zip(starts, counts, strict=False)
    ]


def make_job(
    tmp_path,
    shards,
    *,
    training=(4, 3, 5),
    validation=(),
    former=None,
    generation=0,
    **options,
):
    """A job over ranges of these many records."""
    if validation:
        options["validation_data"] = "validation"
    config = JobConfig.from_options(training_data="training", **options)
    scanned = JobRanges(
        ranges(*training), ranges(*validation, source="validation")
    )
    return Job(
        config,
        str(tmp_path),
        shards,
        scan=lambda _: scanned,
        landing_seconds=0.0,
        former=former,
        generation=generation,
    )


async def run_job(job, workers, *, seconds=30.0):
    """Runs a job with its workers to the end; returns the exit code."""
    running = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        code = await asyncio.wait_for(job.run(), seconds)
        await asyncio.wait_for(asyncio.gather(*running), seconds)
        return code
    finally:
        for task in running:
            task.cancel()
