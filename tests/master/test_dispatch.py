"""Who gets which task, and who trains."""

import asyncio
import random

import pytest

from elastic_keras.wire.errors import Refused
from elastic_keras.wire.proto import master_pb2
from tests.master.benches import Bench, as_test, turns


@as_test
async def test_shards_know_a_member_before_it_gets_its_task():
    async with Bench(1, 1) as bench:
        worker = bench.join(0)
        bench.shards.blocked.add(1)
        getting = asyncio.create_task(bench.get(worker))
        await turns()
        assert not getting.done()
        bench.shards.blocked.clear()
        bench.shards.changes.notify()
        answer = await getting
        assert answer.kind == master_pb2.TASK_TRAIN
        assert [set(c) for c in bench.shards.clocks] == [{answer.member}] * 2


@as_test
async def test_an_unreachable_shard_holds_up_nothing_else():
    async with Bench(1, 1) as bench:
        first = bench.join(0)
        task = await bench.get(first)
        bench.shards.blocked.add(0)
        second = bench.join(1)
        getting = asyncio.create_task(bench.get(second))
        await turns()
        # The first worker's reports and the other shard are served.
        bench.report(first, task)
        bench.side(master_pb2.TASK_EVALUATE)
        answer = await bench.get(first)
        assert answer.kind == master_pb2.TASK_EVALUATE
        await turns()
        assert task.member not in bench.shards.clocks[1]
        assert task.member in bench.shards.clocks[0]
        getting.cancel()
        await asyncio.gather(getting, return_exceptions=True)
        # What was never handed out is back.
        assert not bench.dispatch.training.running
        bench.shards.blocked.clear()
        bench.shards.changes.notify()
        await turns()
        assert bench.shards.clocks[0] == {}


@as_test
async def test_a_task_comes_back_if_shards_do_not_answer_in_time():
    async with Bench(1) as bench:
        worker = bench.join(0)
        bench.shards.blocked.add(0)
        answer = await bench.get(worker, timeout=0.01)
        assert answer.kind == master_pb2.TASK_WAIT
        assert bench.dispatch.training.waiting == 1
        assert bench.membership.members == ()


@as_test
async def test_a_repeated_call_gets_the_same_task():
    async with Bench(1, 1, 1) as bench:
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


@as_test
async def test_a_prefetching_worker_keeps_its_member_number():
    async with Bench(1, 1, 1) as bench:
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


@as_test
async def test_a_worker_that_trains_gets_no_other_tasks_unless_interrupted():
    async with Bench(1) as bench:
        worker = bench.join(0)
        await bench.get(worker)
        bench.side(master_pb2.TASK_EVALUATE)
        assert (await bench.get(worker, timeout=0)).kind == master_pb2.TASK_WAIT
        bench.dispatch.interrupting = True
        answer = await bench.get(worker, interrupted=True)
        assert answer.kind == master_pb2.TASK_EVALUATE
        bench.report(worker, answer)
        waiting = asyncio.create_task(bench.get(worker, interrupted=True))
        await turns()
        assert not waiting.done()
        bench.dispatch.interrupting = False
        bench.changes.notify()
        assert (await waiting).kind == master_pb2.TASK_WAIT


@as_test
async def test_no_training_task_is_handed_out_during_an_evaluation():
    async with Bench(1) as bench:
        worker = bench.join(0)
        bench.dispatch.interrupting = True
        assert (await bench.get(worker, timeout=0)).kind == master_pb2.TASK_WAIT
        bench.dispatch.interrupting = False
        answer = await bench.get(worker, timeout=0)
        assert answer.kind == master_pb2.TASK_TRAIN


@as_test
async def test_callbacks_are_the_chiefs_and_go_to_the_next_one():
    async with Bench(1) as bench:
        bench.dispatch.stopping = True
        chief, other = bench.join(0), bench.join(1)
        bench.side(master_pb2.TASK_CALLBACK)
        assert (await bench.get(other, timeout=0)).kind == master_pb2.TASK_WAIT
        answer = await bench.get(chief)
        assert answer.kind == master_pb2.TASK_CALLBACK
        bench.dispatch.lose(chief, "killed")
        again = await bench.get(other)
        assert again.lease.item is answer.lease.item


@as_test
async def test_a_callback_that_raises_is_not_run_again():
    async with Bench(1) as bench:
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
        async with Bench(1) as bench:
            worker = bench.join(0)
            for _ in range(failures):
                assert bench.dispatch.end is None
                bench.report(worker, await bench.get(worker), **fields)
            assert bench.dispatch.end.exit_code == code
            assert bench.dispatch.end.message == fields["error"]

    asyncio.run(run())


@as_test
async def test_released_and_lost_tasks_never_fail_the_job():
    async with Bench(1) as bench:
        for index in range(10):
            worker = bench.join(index)
            bench.report(worker, await bench.get(worker), released=True)
            await bench.get(worker)
            bench.dispatch.lose(worker, "killed")
        assert bench.dispatch.end is None
        answer = await bench.get(bench.join(99))
        assert answer.lease.item.failures == 0
        assert answer.lease.item.resumed


@as_test
async def test_silent_workers_are_lost():
    async with Bench(1) as bench:
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


@as_test
async def test_a_process_that_died_is_lost_at_once():
    async with Bench(1) as bench:
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


@pytest.mark.parametrize("seed", range(30))
def test_members_are_the_workers_that_train(seed):
    """After every move, and on every shard once it has heard of it."""
    rng = random.Random(seed)

    async def run():
        async with Bench(*[1] * 60) as bench:
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
