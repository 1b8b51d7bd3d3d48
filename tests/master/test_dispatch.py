import asyncio
import itertools
import random

import pytest

from elastic_keras.master.announcer import Announcer
from elastic_keras.master.changes import Changes
from elastic_keras.master.dispatch import Dispatch
from elastic_keras.master.member_gate import MemberGate
from elastic_keras.master.membership import Membership
from elastic_keras.master.reserving import Reserving
from elastic_keras.master.steps import StepBudget
from elastic_keras.master.tasks import TrainingTasks
from elastic_keras.master.work import WorkItem
from elastic_keras.wire.errors import Refused
from elastic_keras.wire.proto import master_pb2
from tests.master.stand_ins import StandInShards, ranges


class _Bench:
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


async def _turns(number=20):
    for _ in range(number):
        await asyncio.sleep(0)


def _async(test):
    """Runs a coroutine function as a test."""

    def run():
        asyncio.run(test())

    run.__name__ = test.__name__
    return run


@_async
async def test_shards_know_a_member_before_it_gets_its_task():
    async with _Bench(1, 1) as bench:
        worker = bench.join(0)
        bench.shards.blocked.add(1)
        getting = asyncio.create_task(bench.get(worker))
        await _turns()
        assert not getting.done()
        bench.shards.blocked.clear()
        bench.shards.changes.notify()
        answer = await getting
        assert answer.kind == master_pb2.TASK_TRAIN
        assert [set(c) for c in bench.shards.clocks] == [{answer.member}] * 2


@_async
async def test_an_unreachable_shard_holds_up_nothing_else():
    async with _Bench(1, 1) as bench:
        first = bench.join(0)
        task = await bench.get(first)
        bench.shards.blocked.add(0)
        second = bench.join(1)
        getting = asyncio.create_task(bench.get(second))
        await _turns()
        # The first worker's reports and the other shard are served.
        bench.report(first, task)
        bench.side(master_pb2.TASK_EVALUATE)
        answer = await bench.get(first)
        assert answer.kind == master_pb2.TASK_EVALUATE
        await _turns()
        assert task.member not in bench.shards.clocks[1]
        assert task.member in bench.shards.clocks[0]
        getting.cancel()
        await asyncio.gather(getting, return_exceptions=True)
        # What was never handed out is back.
        assert not bench.dispatch.training.running
        bench.shards.blocked.clear()
        bench.shards.changes.notify()
        await _turns()
        assert bench.shards.clocks[0] == {}


@_async
async def test_a_task_comes_back_if_shards_do_not_answer_in_time():
    async with _Bench(1) as bench:
        worker = bench.join(0)
        bench.shards.blocked.add(0)
        answer = await bench.get(worker, timeout=0.01)
        assert answer.kind == master_pb2.TASK_WAIT
        assert bench.dispatch.training.waiting == 1
        assert bench.membership.members == ()


@_async
async def test_a_repeated_call_gets_the_same_task():
    async with _Bench(1, 1, 1) as bench:
        worker = bench.join(0)
        first = await bench.get(worker, call=1)
        again = await bench.get(worker, call=1)
        assert again is first
        second = await bench.get(worker, call=2)
        assert second.lease.item is not first.lease.item
        # A task that was reported is not handed out again.
        bench.report(worker, second)
        third = await bench.get(worker, call=2)
        assert third.lease.item not in (first.lease.item, second.lease.item)


@_async
async def test_a_prefetching_worker_keeps_its_member_number():
    async with _Bench(1, 1, 1) as bench:
        worker = bench.join(0)
        first = await bench.get(worker)
        second = await bench.get(worker)
        assert second.member == first.member
        bench.report(worker, first)
        assert bench.membership.members == (first.member,)
        bench.report(worker, second)
        assert bench.membership.members == ()
        third = await bench.get(worker)
        assert third.member > first.member


@_async
async def test_a_worker_that_trains_gets_no_other_tasks_unless_interrupted():
    async with _Bench(1) as bench:
        worker = bench.join(0)
        await bench.get(worker)
        bench.side(master_pb2.TASK_EVALUATE)
        assert (await bench.get(worker, timeout=0)).kind == master_pb2.TASK_WAIT
        bench.dispatch.interrupting = True
        answer = await bench.get(worker, interrupted=True)
        assert answer.kind == master_pb2.TASK_EVALUATE
        bench.report(worker, answer)
        waiting = asyncio.create_task(bench.get(worker, interrupted=True))
        await _turns()
        assert not waiting.done()
        bench.dispatch.interrupting = False
        bench.changes.notify()
        assert (await waiting).kind == master_pb2.TASK_WAIT


@_async
async def test_no_training_task_is_handed_out_during_an_evaluation():
    async with _Bench(1) as bench:
        worker = bench.join(0)
        bench.dispatch.interrupting = True
        assert (await bench.get(worker, timeout=0)).kind == master_pb2.TASK_WAIT
        bench.dispatch.interrupting = False
        answer = await bench.get(worker, timeout=0)
        assert answer.kind == master_pb2.TASK_TRAIN


@_async
async def test_callbacks_are_the_chiefs_and_go_to_the_next_one():
    async with _Bench(1) as bench:
        bench.dispatch.stopping = True
        chief, other = bench.join(0), bench.join(1)
        bench.side(master_pb2.TASK_CALLBACK)
        assert (await bench.get(other, timeout=0)).kind == master_pb2.TASK_WAIT
        answer = await bench.get(chief)
        assert answer.kind == master_pb2.TASK_CALLBACK
        bench.dispatch.lose(chief, "killed")
        again = await bench.get(other)
        assert again.lease.item is answer.lease.item


@_async
async def test_a_callback_that_raises_is_not_run_again():
    async with _Bench(1) as bench:
        worker = bench.join(0)
        bench.side(master_pb2.TASK_CALLBACK)
        answer = await bench.get(worker)
        bench.report(worker, answer, error="Traceback: mine")
        assert bench.dispatch.end.message == "Traceback: mine"
        assert bench.dispatch.end.exit_code == 1


@pytest.mark.parametrize(
    ("fields", "failures", "code"),
    [
        ({"error": "mine"}, 3, 1),
        ({"error": "shape", "fatal": True, "exit_code": 2}, 1, 2),
    ],
)
def test_failures(fields, failures, code):
    async def run():
        async with _Bench(1) as bench:
            worker = bench.join(0)
            for _ in range(failures):
                assert bench.dispatch.end is None
                bench.report(worker, await bench.get(worker), **fields)
            assert bench.dispatch.end.exit_code == code
            assert bench.dispatch.end.message == fields["error"]

    asyncio.run(run())


@_async
async def test_released_and_lost_tasks_never_fail_the_job():
    async with _Bench(1) as bench:
        for index in range(10):
            worker = bench.join(index)
            bench.report(worker, await bench.get(worker), released=True)
            await bench.get(worker)
            bench.dispatch.lose(worker, "killed")
        assert bench.dispatch.end is None
        answer = await bench.get(bench.join(99))
        assert answer.lease.item.failures == 0
        assert answer.lease.item.resumed


@_async
async def test_silent_workers_are_lost():
    async with _Bench(1) as bench:
        silent, other = bench.join(0), bench.join(1)
        task = await bench.get(silent)
        bench.now = 9.0
        assert bench.dispatch.beat(other)
        bench.now = 11.0
        bench.dispatch.lose_silent()
        with pytest.raises(Refused):
            await bench.get(silent)
        with pytest.raises(Refused):
            bench.report(silent, task)
        assert not bench.dispatch.beat(silent)
        answer = await bench.get(other)
        assert answer.lease.item is task.lease.item


@_async
async def test_a_process_that_died_is_lost_at_once():
    async with _Bench(1) as bench:
        worker = bench.dispatch.join(3, has_callbacks=False, pid=77).number
        task = await bench.get(worker)
        # A former process of that index, and another one's.
        bench.dispatch.lose_process(3, 76)
        bench.dispatch.lose_process(2, 77)
        assert bench.membership.alive == 1
        bench.dispatch.lose_process(3, 77)
        assert bench.membership.alive == 0
        again = await bench.get(bench.join(0))
        assert again.lease.item is task.lease.item


@_async
async def test_a_worker_that_waits_for_steps_holds_nobody_back():
    async with _Bench(4, 4, max_steps=4) as bench:
        a, b = bench.join(0), bench.join(1)
        first, second = await bench.get(a), await bench.get(b)
        assert (await bench.reserve(a, want=1)).granted == 1
        assert (await bench.reserve(a, want=1)).granted == 1
        assert (await bench.reserve(b, want=1)).granted == 1
        assert (await bench.reserve(a, want=1)).granted == 1
        waiting = asyncio.create_task(bench.reserve(b, want=1))
        await _turns()
        # It has a step to do: others may have to wait for it.
        assert set(bench.membership.members) == {first.member, second.member}
        await bench.reserve(b, done=1)
        await _turns()
        assert bench.membership.members == (first.member,)
        # A step that is given back goes to who waits, under a new number.
        await bench.reserve(a, returned=1)
        reply = await waiting
        assert reply.granted == 1
        assert reply.member > second.member
        assert bench.membership.members == (first.member, reply.member)


@_async
async def test_a_repeated_reservation_settles_once_and_gets_the_same_steps():
    async with _Bench(8, max_steps=40) as bench:
        worker = bench.join(0)
        await bench.get(worker)
        first = await bench.reserve(worker, call=1, want=3)
        assert first.granted == 3
        again = await bench.reserve(worker, call=1, want=3)
        assert again == first
        assert bench.dispatch.budget.outstanding(worker) == 3
        for _ in range(3):
            await bench.reserve(worker, call=2, done=1)
        assert bench.dispatch.budget.done == 1


@_async
async def test_what_only_settles_never_waits():
    async with _Bench(8, max_steps=1) as bench:
        worker = bench.join(0)
        await bench.get(worker)
        await bench.reserve(worker, want=1)
        reply = await bench.reserve(worker, done=1, want=0)
        assert reply.granted == 0
        assert bench.dispatch.budget.at_boundary


@_async
async def test_steps_kept_for_a_task_bring_someone_to_take_it():
    async with _Bench(4, 4, 4, max_steps=2) as bench:
        a, b = bench.join(0), bench.join(1)
        held = [await bench.get(a), await bench.get(b), await bench.get(b)]
        budget = bench.dispatch.budget
        # The first task is half-pushed: its worker is gone.
        await bench.reserve(a, want=1)
        bench.dispatch.lose(a, "killed")
        budget.resolve(1, {(0, 0): 1})
        # The other worker holds two tasks, but the step is not for them.
        reply = await bench.reserve(b, want=1)
        assert reply.stop
        for answer in held[1:]:
            bench.report(b, answer, released=True)
        taken = await bench.get(b)
        assert taken.lease.item is held[0].lease.item
        assert (await bench.reserve(b, want=1)).granted == 1


@_async
async def test_flags_for_who_waits_for_steps():
    async with _Bench(8, max_steps=1) as bench:
        worker = bench.join(0)
        await bench.get(worker)
        await bench.reserve(worker, want=1)
        waiting = asyncio.create_task(bench.reserve(worker, done=1, want=1))
        await _turns()
        bench.dispatch.interrupting = True
        bench.changes.notify()
        assert (await waiting).evaluate
        bench.dispatch.interrupting = False
        bench.dispatch.stopping = True
        assert (await bench.reserve(worker, want=1)).stop


@pytest.mark.parametrize("seed", range(30))
def test_members_are_the_workers_that_train(seed):
    """After every move, and on every shard once it has heard of it."""
    rng = random.Random(seed)

    async def run():
        async with _Bench(*[1] * 60) as bench:
            held = {}
            workers = {}
            for _ in range(150):
                index = rng.randrange(4)
                worker = workers.get(index)
                move = rng.choice(["join", "get", "get", "report", "lose"])
                if move == "join" or worker is None:
                    workers[index] = bench.join(index)
                    held[index] = []
                elif move == "get" and len(held[index]) < 2:
                    answer = await bench.get(worker, timeout=0.5)
                    if answer.lease is None:
                        break
                    held[index].append(answer)
                elif move == "report" and held[index]:
                    answer = held[index].pop(rng.randrange(len(held[index])))
                    released = rng.random() < 0.3
                    bench.report(worker, answer, released=released)
                elif move == "lose":
                    bench.dispatch.lose(worker, "killed")
                    del workers[index], held[index]
                members = {
                    answers[-1].member for answers in held.values() if answers
                }
                assert set(bench.membership.members) == members
                await bench.announcer.acknowledged(bench.membership.number)
                for clocks in bench.shards.clocks:
                    assert set(clocks) == members

    asyncio.run(run())
