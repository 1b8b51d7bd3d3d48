"""A dispatch without a flow."""

import asyncio
import itertools

from elastic_keras.master.announcer import Announcer
from elastic_keras.master.changes import Changes
from elastic_keras.master.dispatch import Dispatch
from elastic_keras.master.member_gate import MemberGate
from elastic_keras.master.membership import Membership
from elastic_keras.master.reserving import Reserving
from elastic_keras.master.steps import StepBudget
from elastic_keras.master.tasks import TrainingTasks
from elastic_keras.master.work import WorkItem
from elastic_keras.wire.proto import master_pb2
from tests.master.stand_in_shards import StandInShards
from tests.master.stand_ins import ranges


class Bench:
    """A dispatch with training tasks, without a flow."""

    def __init__(self, *counts, shards=None, max_steps=0):
        self.now = 0.0
        self.shards = shards or StandInShards()
        self.changes = Changes()
        self.membership = Membership(10.0)
        self.announcer = Announcer(self.membership, self.shards, self.changes)
        leases = itertools.count(1)
        self.dispatch = Dispatch(
            gate=MemberGate(self.membership, self.announcer, lambda: self.now),
            budget=StepBudget(evaluation_steps=0, max_steps=max_steps),
            changes=self.changes,
            leases=leases,
            clock=lambda: self.now,
        )
        self.reserving = Reserving(
            self.dispatch, self.changes, lambda: self.now
        )
        self.dispatch.training = TrainingTasks(
            ranges(*counts), num_epochs=1, seed=0, shuffle=False, leases=leases
        )
        self.dispatch.training.allow(0)
        self._calls = itertools.count(1)

    async def __aenter__(self):
        self.announcer.start()
        return self

    async def __aexit__(self, *_):
        await self.announcer.close()

    def join(self, index):
        return self.dispatch.join(index, has_callbacks=False).number

    async def get(self, worker, *, interrupted=False, call=None, timeout=5.0):
        return await self.dispatch.get_task(
            worker,
            interrupted=interrupted,
            call=next(self._calls) if call is None else call,
            timeout=timeout,
        )

    def report(self, worker, answer, **fields):
        self.dispatch.report(
            master_pb2.ReportTaskRequest(
                worker=worker, lease=answer.lease.number, **fields
            )
        )

    async def reserve(self, worker, call=None, timeout=5.0, **fields):
        return await self.reserving.reserve(
            master_pb2.ReserveStepsRequest(
                worker=worker,
                call=next(self._calls) if call is None else call,
                **fields,
            ),
            timeout,
        )

    def side(self, kind, task=0):
        item = WorkItem(kind, task)
        self.dispatch.side.add([item])
        self.changes.notify()
        return item


async def turns(number=20):
    for _ in range(number):
        await asyncio.sleep(0)


def as_test(test):
    """Runs a coroutine function as a test."""

    def run():
        asyncio.run(test())

    run.__name__ = test.__name__
    return run
