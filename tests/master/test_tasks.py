import itertools

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from elastic_keras.master import seeds
from elastic_keras.master.tasks import TrainingTasks
from elastic_keras.master.work import Counts
from tests.master.stand_ins import ranges


def _tasks(*counts, num_epochs=1, seed=0, shuffle=True):
    return TrainingTasks(
        ranges(*counts),
        num_epochs=num_epochs,
        seed=seed,
        shuffle=shuffle,
        leases=itertools.count(1),
    )


def _drain(tasks):
    """Takes and finishes all tasks that are allowed."""
    items = []
    while (lease := tasks.take(1)) is not None:
        items.append(lease.item)
        tasks.finish(lease, Counts(records=lease.item.range.count))
    return items


def test_order_and_seeds_are_functions_of_seed_and_epoch():
    def plan(seed, epochs=2):
        tasks = _tasks(*range(1, 40), seed=seed, num_epochs=epochs)
        tasks.allow(epochs)
        return [(i.epoch, i.task, i.shuffle_seed) for i in _drain(tasks)]

    assert plan(7) == plan(7)
    # More epochs do not change the earlier ones.
    assert plan(7, epochs=3)[:78] == plan(7)
    first, second = plan(7)[:39], plan(7)[39:]
    assert [i[1] for i in first] != [i[1] for i in second]
    assert [i[1] for i in first] != [i[1] for i in plan(8)[:39]]
    assert sorted(i[1] for i in first) == list(range(39))
    assert len({i[2] for i in plan(7)}) == 78
    assert all(0 <= i[2] < 1 << 63 for i in plan(7))


def test_without_shuffle_tasks_come_in_order():
    tasks = _tasks(1, 2, 3, shuffle=False, num_epochs=2)
    tasks.allow(1)
    items = _drain(tasks)
    assert [i.task for i in items] == [0, 1, 2, 0, 1, 2]
    assert {i.shuffle_seed for i in items} == {-1}


def test_keys_do_not_depend_on_the_number_of_tasks():
    few = seeds.keys(3, 1, 10, seeds.ORDER)
    many = seeds.keys(3, 1, 1000, seeds.ORDER)
    assert np.array_equal(few, many[:10])
    assert not np.array_equal(few, seeds.keys(3, 1, 10, seeds.SHUFFLE))
    assert not np.array_equal(few, seeds.keys(4, 1, 10, seeds.ORDER))
    assert not np.array_equal(few, seeds.keys(3, 2, 10, seeds.ORDER))


def test_an_epoch_waits_for_leave():
    tasks = _tasks(1, 1, num_epochs=3)
    assert tasks.take(1) is None
    tasks.allow(0)
    assert len(_drain(tasks)) == 2
    assert tasks.epoch_done(0)
    assert not tasks.epoch_done(1)
    tasks.allow(2)
    assert [i.epoch for i in _drain(tasks)] == [1, 1, 2, 2]
    assert tasks.epochs_done == 3


def test_a_lost_task_is_handed_out_next_and_resumed():
    tasks = _tasks(1, 1, 1, shuffle=False)
    tasks.allow(0)
    lost = tasks.take(1)
    assert not lost.item.resumed
    assert tasks.lose(1) == [lost.item]
    again = tasks.take(2)
    assert again.item is lost.item
    assert again.item.resumed
    assert again.number != lost.number
    # The old lease is over.
    assert tasks.find(lost.number, 1) is None
    assert tasks.find(again.number, 1) is None
    assert tasks.find(again.number, 2) is again


def test_dropped_tasks_do_not_come_back():
    tasks = _tasks(1, 1, 1, num_epochs=2)
    tasks.allow(1)
    lease = tasks.take(1)
    tasks.drop()
    assert not tasks.epoch_done(0)
    tasks.release(lease)
    assert tasks.take(1) is None
    assert tasks.waiting == tasks.running == 0
    assert tasks.epoch_done(0)


def test_some_tasks_can_come_first():
    tasks = _tasks(1, 1, 1, shuffle=False)
    tasks.allow(0)
    first = tasks.take(1)
    second = tasks.take(2)
    tasks.release(first)
    tasks.release(second)
    assert tasks.take(1, first={(0, 0)}).item.task == 0
    assert tasks.take(1, first={(0, 0)}).item.task == 1


class DispatchMachine(RuleBasedStateMachine):
    """Each record of each epoch is done exactly once, whatever happens."""

    leases = Bundle("leases")

    @initialize(
        counts=st.lists(st.integers(1, 5), min_size=1, max_size=5),
        epochs=st.integers(1, 3),
        shuffle=st.booleans(),
    )
    def start(self, counts, epochs, shuffle):
        self.epochs = epochs
        self.counts = counts
        self.tasks = _tasks(*counts, num_epochs=epochs, shuffle=shuffle)
        self.held = {}
        self.done = []
        self.seen = set()

    @rule(epoch=st.integers(0, 3))
    def allow(self, epoch):
        self.tasks.allow(epoch)

    @rule(target=leases, worker=st.integers(1, 3))
    def take(self, worker):
        lease = self.tasks.take(worker)
        if lease is None:
            return None
        key = (lease.item.epoch, lease.item.task)
        assert key not in [
            (h.item.epoch, h.item.task) for h in self.held.values()
        ]
        assert key not in self.done
        assert lease.item.resumed == (key in self.seen)
        self.seen.add(key)
        self.held[lease.number] = lease
        return lease

    @rule(
        lease=leases,
        what=st.sampled_from(["finish", "fail", "release"]),
    )
    def report(self, lease, what):
        """Also of leases that are over: these must be refused."""
        if lease is None:
            return
        found = self.tasks.find(lease.number, lease.worker)
        assert (found is not None) == (lease.number in self.held)
        if found is None:
            return
        del self.held[lease.number]
        if what == "finish":
            self.done.append((lease.item.epoch, lease.item.task))
            self.tasks.finish(found, Counts(records=lease.item.range.count))
        else:
            getattr(self.tasks, what)(found)

    @rule(lease=consumes(leases))
    def lose_its_worker(self, lease):
        worker = 1 if lease is None else lease.worker
        items = self.tasks.lose(worker)
        mine = [h for h in self.held.values() if h.worker == worker]
        assert items == [h.item for h in sorted(mine, key=lambda h: h.number)]
        for h in mine:
            del self.held[h.number]
        assert not self.tasks.holds(worker)

    @invariant()
    def nothing_is_lost(self):
        if not hasattr(self, "tasks"):
            return
        assert self.tasks.running == len(self.held)
        for epoch in range(self.epochs):
            done = sorted(task for e, task in self.done if e == epoch)
            whole = done == list(range(len(self.counts)))
            assert self.tasks.epoch_done(epoch) == whole
            records = sum(self.counts[task] for task in done)
            assert self.tasks.counts(epoch).records == records

    def teardown(self):
        """In the end everything can be done."""
        if not hasattr(self, "tasks"):
            return
        for worker in (1, 2, 3):
            self.tasks.lose(worker)
        self.tasks.allow(self.epochs)
        self.done += [(i.epoch, i.task) for i in _drain(self.tasks)]
        tasks = range(len(self.counts))
        assert sorted(self.done) == [
            (e, t) for e in range(self.epochs) for t in tasks
        ]
        assert self.tasks.counts().records == sum(self.counts) * self.epochs


TestDispatch = DispatchMachine.TestCase
TestDispatch.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None
)
