"""Workers as threads on real shards, one of them five times slower."""

import threading

import numpy as np
import pytest

from elastic_keras import routing
from elastic_keras.config import StalenessOptions
from elastic_keras.ps.answers import Outcome
from elastic_keras.ps.push import Gradients, Push, Rows
from elastic_keras.ps.shard import Shard
from elastic_keras.signature import (
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    TableSpec,
)

MODEL = ModelSignature(
    seed=0,
    optimizers=(OptimizerSpec("sgd", 1.0),),
    dense=(DenseSpec("a", (64,)), DenseSpec("b", (64,))),
    tables=(TableSpec("t", 4, InitializerSpec("constant", 0.0)),),
)
SHARDS, WORKERS, STEPS = 2, 3, 25
IDS = np.arange(40)


class Job:
    """The shards, and a way for a pull to wait."""

    def __init__(self, **options) -> None:
        self.changed = threading.Condition()
        self.placements = routing.place(MODEL, SHARDS)
        self.shards = []
        for index, placement in enumerate(self.placements):
            shard = Shard(index, SHARDS, StalenessOptions(**options))
            shard.on_change(self._tell)
            shard.adopt(MODEL)
            shard.init_dense(
                np.zeros(placement.dense_size, np.float32),
                np.zeros(placement.states_size, np.float32),
            )
            self.shards.append(shard)
        self.tell_members(1, range(WORKERS))

    def _tell(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def tell_members(self, number, members) -> None:
        for shard in self.shards:
            shard.set_members(number, list(members))

    def pull(self, index: int, member: int, step: int, again: bool) -> int:
        shard = self.shards[index]
        ids = IDS[routing.owners(IDS, SHARDS) == index]
        with self.changed:
            granted = self.changed.wait_for(
                lambda: shard.may_pull(member, step, recompute=again), 60
            )
        assert granted
        return shard.pull([(0, ids)]).version

    def push(self, index: int, member: int, step: int, version: int) -> bool:
        """Returns whether the push was refused."""
        ids = IDS[routing.owners(IDS, SHARDS) == index]
        placement = self.placements[index]
        result = self.shards[index].push(
            Push(
                epoch=0,
                task=member,
                batch=step,
                examples=2,
                member=member,
                step=step,
                pull_version=version,
                gradients=Gradients(
                    [Rows(0, ids, np.full((len(ids), 4), -1.0, np.float32))],
                    np.full(placement.dense_size, -1.0, np.float32),
                    np.zeros(0, np.float32),
                ),
            )
        )
        assert result.outcome in (Outcome.APPLIED, Outcome.REFUSED)
        return result.outcome is Outcome.REFUSED

    def work(self, member: int, slowness: int) -> None:
        for step in range(STEPS):
            todo = list(range(SHARDS))
            again = False
            while todo:
                versions = {i: self.pull(i, member, step, again) for i in todo}
                for _ in range(slowness):
                    for shard in self.shards:
                        shard.pull([])
                todo = [
                    i for i in todo if self.push(i, member, step, versions[i])
                ]
                again = True


@pytest.mark.parametrize("grads_to_wait", [1, 2])
@pytest.mark.parametrize("bound", [0, 2])
@pytest.mark.parametrize("policy", ["wait", "recompute", "unbounded"])
def test_all_come_to_an_end_within_the_bound(policy, bound, grads_to_wait):
    job = Job(
        staleness_policy=policy,
        max_staleness=bound,
        grads_to_wait=grads_to_wait,
    )
    failures = []

    def run(member: int) -> None:
        try:
            job.work(member, 20 if member == 0 else 4)
        except BaseException as error:
            failures.append(error)

    threads = [
        threading.Thread(target=run, args=(m,), daemon=True)
        for m in range(WORKERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
    for shard in job.shards:
        shard.flush()
        report = shard.report()
        assert report.version == report.batches == WORKERS * STEPS
        assert report.examples_by_epoch == {0: 2 * WORKERS * STEPS}
        if policy == "recompute":
            assert report.staleness_max <= bound
        # Each update adds 1 to every value, each exactly once.
        updates = -(-WORKERS * STEPS // grads_to_wait)
        assert report.iterations == updates
        pulled = shard.pull([])
        assert set(pulled.dense.tolist()) <= {float(updates)}
        _, rows, _ = shard._parameters.tables[0].export()
        assert set(rows.ravel().tolist()) == {float(updates)}
