"""Steps that workers reserve."""

import asyncio

from tests.master.benches import Bench, as_test, turns


@as_test
async def test_a_worker_that_waits_for_steps_holds_nobody_back():
    async with Bench(4, 4, max_steps=4) as bench:
        a, b = bench.join(0), bench.join(1)
        first, second = await bench.get(a), await bench.get(b)
        assert (await bench.reserve(a, want=1)).granted == 1
        assert (await bench.reserve(a, want=1)).granted == 1
        assert (await bench.reserve(b, want=1)).granted == 1
        assert (await bench.reserve(a, want=1)).granted == 1
        waiting = asyncio.create_task(bench.reserve(b, want=1))
        await turns()
        # It has a step to do: others may have to wait for it.
        assert set(bench.membership.members) == {first.member, second.member}
        await bench.reserve(b, done=1)
        await turns()
        assert bench.membership.members == (first.member,)
        # A step that is given back goes to who waits, under a new number.
        await bench.reserve(a, returned=1)
        reply = await waiting
        assert reply.granted == 1
        assert reply.member > second.member
        assert bench.membership.members == (first.member, reply.member)


@as_test
async def test_a_repeated_reservation_settles_once_and_gets_the_same_steps():
    async with Bench(8, max_steps=40) as bench:
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


@as_test
async def test_what_only_settles_never_waits():
    async with Bench(8, max_steps=1) as bench:
        worker = bench.join(0)
        await bench.get(worker)
        await bench.reserve(worker, want=1)
        reply = await bench.reserve(worker, done=1, want=0)
        assert reply.granted == 0
        assert bench.dispatch.budget.at_boundary


@as_test
async def test_steps_kept_for_a_task_bring_someone_to_take_it():
    async with Bench(4, 4, 4, max_steps=2) as bench:
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


@as_test
async def test_flags_for_who_waits_for_steps():
    async with Bench(8, max_steps=1) as bench:
        worker = bench.join(0)
        await bench.get(worker)
        await bench.reserve(worker, want=1)
        waiting = asyncio.create_task(bench.reserve(worker, done=1, want=1))
        await turns()
        bench.dispatch.interrupting = True
        bench.changes.notify()
        assert (await waiting).evaluate
        bench.dispatch.interrupting = False
        bench.dispatch.stopping = True
        assert (await bench.reserve(worker, want=1)).stop
