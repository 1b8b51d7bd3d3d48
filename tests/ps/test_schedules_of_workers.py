"""Every schedule of workers and shards keeps the bound and comes to an end.

Workers and shards are simulated without sockets or time: hypothesis picks
which of the things that could happen next does. The workers pull ahead,
push in order, wait for all shards' answers before the next push, recompute
what was refused beside that, join, leave and repeat their calls.
"""

import dataclasses

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from elastic_keras.config import StalenessOptions
from elastic_keras.ps.staleness import Staleness

DEPTH = 3


class Shard:
    """A shard's staleness and ledger, and a second opinion on both."""

    def __init__(self, options: StalenessOptions) -> None:
        self.options = options
        self.staleness = Staleness(options)
        self.ledger: set[tuple[int, int]] = set()
        self.buffer: list[int] = []
        # Member -> its steps in the order of arrival, and its base.
        self.finished: dict[int, set[int]] = {}
        self.bases: dict[int, int] = {}
        self.live: set[int] = set()

    def set_members(self, number: int, members: list[int]) -> None:
        remaining = self.live & set(members)
        base = min((self.clock(m) for m in remaining), default=0)
        for member in set(members) - self.live:
            self.bases[member] = base
            self.finished[member] = set()
        self.live = set(members)
        self.staleness.set_members(number, members)

    def clock(self, member: int) -> int:
        done = self.finished[member]
        gap = next(i for i in range(len(done) + 1) if i not in done)
        return self.bases[member] + gap

    def may_pull(self, member: int, step: int, *, recompute: bool) -> bool:
        granted = self.staleness.may_pull(member, step, recompute=recompute)
        if granted and self.options.staleness_policy == "wait":
            bound = self.bases[member] + step - self.options.max_staleness
            assert all(self.clock(m) >= bound for m in self.live)
        return granted

    def push(self, member: int, step: int, version: int) -> bool:
        """Returns whether the push was refused."""
        if (member, step) in self.ledger:
            self.staleness.finish(member, step)
            return False
        judgement = self.staleness.judge(member, step, version)
        assert judgement.staleness == self.staleness.version - version
        if judgement.refused:
            assert self.options.staleness_policy == "recompute"
            return True
        self.ledger.add((member, step))
        self.buffer.append(judgement.staleness)
        if len(self.buffer) == self.options.grads_to_wait:
            self.flush()
        if member in self.live:
            self.finished[member].add(step)
        self.staleness.finish(member, step)
        return False

    def flush(self) -> None:
        self.staleness.applied(self.buffer)
        self.buffer = []


@dataclasses.dataclass
class Step:
    """A batch on its way through a worker."""

    number: int
    versions: dict[int, int] = dataclasses.field(default_factory=dict)
    # Shard -> whether it refused, for every answer so far.
    answers: dict[int, bool] = dataclasses.field(default_factory=dict)

    def refusing(self) -> list[int]:
        return [shard for shard, refused in self.answers.items() if refused]


@dataclasses.dataclass
class Worker:
    """A worker: pulls ahead, pushes in order, recomputes what is refused."""

    member: int
    total: int
    pulling: Step | None = None
    next_step: int = 0
    queue: list[Step] = dataclasses.field(default_factory=list)
    recompute: list[Step] = dataclasses.field(default_factory=list)
    # The recomputation under way: shard -> the version pulled again.
    fresh: dict[int, int] | None = None

    def is_done(self) -> bool:
        return self.next_step == self.total and not (
            self.pulling or self.queue or self.recompute
        )

    def held(self) -> int:
        return len(self.queue) + len(self.recompute) + bool(self.pulling)


class World:
    """All shards and workers; each action is a step of one of them."""

    def __init__(self, options: StalenessOptions, num_shards: int) -> None:
        self.shards = [Shard(options) for _ in range(num_shards)]
        self.workers: list[Worker] = []
        self.number = 0
        self.next_member = 1

    def join(self, steps: int) -> None:
        self.workers.append(Worker(self.next_member, steps))
        self.next_member += 1
        self.tell_members()

    def leave(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.tell_members()

    def tell_members(self) -> None:
        self.number += 1
        members = [w.member for w in self.workers if not w.is_done()]
        for shard in self.shards:
            shard.set_members(self.number, members)

    def actions(self) -> list:
        """What could happen next; each entry is called to make it happen."""
        return [action for w in self.workers for action in self._of(w)]

    def _of(self, w: Worker) -> list:
        found = []
        if w.pulling is None and w.next_step < w.total and w.held() < DEPTH:
            w.pulling = Step(w.next_step)
            w.next_step += 1
        if w.pulling is not None:
            step = w.pulling
            found += [
                lambda i=i: self._pull(w, step, i)
                for i, shard in enumerate(self.shards)
                if i not in step.versions
                and shard.may_pull(w.member, step.number, recompute=False)
            ]
        if w.queue:
            found += [
                lambda i=i: self._push(w, i)
                for i in range(len(self.shards))
                if i not in w.queue[0].answers
            ]
        if w.recompute and w.fresh is None:
            found.append(lambda: self._pull_again(w))
        elif w.recompute and w.fresh is not None:
            found += [lambda i=i: self._push_again(w, i) for i in w.fresh]
        return found

    def _pull(self, w: Worker, step: Step, i: int) -> None:
        step.versions[i] = self.shards[i].staleness.version
        if len(step.versions) == len(self.shards):
            w.queue.append(step)
            w.pulling = None

    def _push(self, w: Worker, i: int) -> None:
        step = w.queue[0]
        step.answers[i] = self.shards[i].push(
            w.member, step.number, step.versions[i]
        )
        if len(step.answers) == len(self.shards):
            w.queue.pop(0)
            if step.refusing():
                w.recompute.append(step)
            self._settle(w)

    def _pull_again(self, w: Worker) -> None:
        step = w.recompute[0]
        # One round of pulls: none of them may have to wait.
        for i in step.refusing():
            assert self.shards[i].may_pull(
                w.member, step.number, recompute=True
            )
        w.fresh = {i: self.shards[i].staleness.version for i in step.refusing()}

    def _push_again(self, w: Worker, i: int) -> None:
        step = w.recompute[0]
        assert w.fresh is not None
        step.answers[i] = self.shards[i].push(
            w.member, step.number, w.fresh.pop(i)
        )
        if not w.fresh:
            # Shards that refuse still are pulled from once more.
            w.fresh = None
            if not step.refusing():
                w.recompute.pop(0)
            self._settle(w)

    def _settle(self, w: Worker) -> None:
        if w.is_done():
            self.tell_members()

    def repeat(self, w: Worker, back: int) -> None:
        """A call whose answer was lost comes once more."""
        number = max(0, w.next_step - 1 - back)
        for shard in self.shards:
            shard.may_pull(w.member, number, recompute=False)
            if (w.member, number) in shard.ledger:
                assert not shard.push(w.member, number, 0)


class Schedules(RuleBasedStateMachine):
    """Hypothesis chooses; at the end everything must come to an end."""

    @initialize(
        policy=st.sampled_from(["wait", "recompute", "dampen", "unbounded"]),
        bound=st.integers(0, 3),
        grads=st.integers(1, 3),
        shards=st.integers(1, 3),
        workers=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    )
    def begin(self, policy, bound, grads, shards, workers):
        self.options = StalenessOptions(
            staleness_policy=policy, max_staleness=bound, grads_to_wait=grads
        )
        self.world = World(self.options, shards)
        for steps in workers:
            self.world.join(steps)

    @rule(choices=st.lists(st.integers(0, 1000), min_size=1, max_size=20))
    def act(self, choices):
        for choice in choices:
            actions = self.world.actions()
            if actions:
                actions[choice % len(actions)]()

    @rule(who=st.integers(0, 100), times=st.integers(1, 20))
    def hurry(self, who, times):
        """One worker runs while the others stand still."""
        for _ in range(times):
            if self.world.workers:
                worker = self.world.workers[who % len(self.world.workers)]
                actions = self.world._of(worker)
                if actions:
                    actions[0]()

    @rule(steps=st.integers(1, 5))
    def join(self, steps):
        if len(self.world.workers) < 6:
            self.world.join(steps)

    @rule(who=st.integers(0, 100))
    def leave(self, who):
        if self.world.workers:
            self.world.leave(self.world.workers[who % len(self.world.workers)])

    @rule(who=st.integers(0, 100), back=st.integers(0, 3))
    def repeat(self, who, back):
        working = [w for w in self.world.workers if not w.is_done()]
        if working:
            self.world.repeat(working[who % len(working)], back)

    @rule()
    def flush(self):
        for shard in self.world.shards:
            shard.flush()

    @invariant()
    def bound_holds(self):
        if not hasattr(self, "world"):
            return
        for shard in self.world.shards:
            staleness = shard.staleness
            assert sum(staleness.counts) == staleness.version
            assert staleness.version + len(shard.buffer) == len(shard.ledger)
            if self.options.staleness_policy == "recompute":
                assert staleness.maximum <= self.options.max_staleness
            for member in shard.live:
                assert staleness.clocks.clock(member) == shard.clock(member)

    def teardown(self):
        if not hasattr(self, "world"):
            return
        # Every action in turn, so that no worker is left out for ever.
        for turn in range(4000):
            actions = self.world.actions()
            if not actions:
                break
            actions[turn % len(actions)]()
        self.bound_holds()
        stuck = [w for w in self.world.workers if not w.is_done()]
        assert not stuck, stuck
        for shard in self.world.shards:
            for worker in self.world.workers:
                for step in range(worker.total):
                    assert (worker.member, step) in shard.ledger


TestSchedules = Schedules.TestCase
TestSchedules.settings = settings(
    max_examples=150,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
