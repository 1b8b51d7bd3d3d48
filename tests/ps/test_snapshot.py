"""Snapshots of shards, taken over by any number of others."""

import json

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from elastic_keras import routing
from elastic_keras.config import JobConfig, StalenessOptions
from elastic_keras.ps.errors import BadRequestError, NotReadyError
from elastic_keras.ps.push import Gradients, Push, Rows
from elastic_keras.ps.shard import Shard
from elastic_keras.signature import (
    ConstraintSpec,
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    StateSpec,
    TableSpec,
)
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.manifest import Manifest
from elastic_keras.snapshots.snapshot import Snapshot

_MODEL = ModelSignature(
    seed=5,
    optimizers=(
        OptimizerSpec("adam", 0.01, hyper={"amsgrad": 1.0}),
        OptimizerSpec("nadam", 0.02),
        OptimizerSpec("sgd", 0.1),
    ),
    dense=(
        DenseSpec("a", (4, 3)),
        DenseSpec("b", (5,), optimizer=1),
        DenseSpec("c", (2, 2), constraint=ConstraintSpec("max_norm", 0, 1.0)),
        DenseSpec("scalar", (), optimizer=2),
    ),
    states=(StateSpec("mean", (3,)),),
    tables=(
        TableSpec("users", 2, InitializerSpec("uniform", -1.0, 1.0)),
        TableSpec("items", 3, optimizer=1),
        TableSpec("tags", 1, InitializerSpec("normal", 0.0, 1.0), optimizer=2),
    ),
)
_SIZES = {"dense": 12 + 5 + 4 + 1, "states": 3}


class _Job:
    """The shards of a job, without sockets."""

    def __init__(self, count):
        self.shards = [
            Shard(i, count, StalenessOptions()) for i in range(count)
        ]
        placements = routing.place(_MODEL, count)
        self.dense = routing.plan(placements)
        self.states = routing.plan(placements, states=True)

    def begin(self):
        dense = np.linspace(-1, 1, _SIZES["dense"], dtype=np.float32)
        for i, shard in enumerate(self.shards):
            shard.adopt(_MODEL)
            shard.init_dense(
                self.dense.part(dense, i),
                self.states.part(np.ones(3, np.float32), i),
            )
        return self

    def train(self, steps, seed=0, task=0):
        random = np.random.default_rng(seed)
        for batch in range(steps):
            ids = [np.unique(random.integers(-9, 9, 6)) for _ in _MODEL.tables]
            rows = [
                random.normal(size=(len(i), table.dim)).astype(np.float32)
                for i, table in zip(ids, _MODEL.tables, strict=True)
            ]
            dense = random.normal(size=_SIZES["dense"]).astype(np.float32)
            states = random.normal(size=3).astype(np.float32)
            for shard in self.shards:
                self._push(shard, (0, task, batch), ids, rows, dense, states)

    def _push(self, shard, key, ids, rows, dense, states):
        count, index = len(self.shards), shard.index
        mine = [routing.owners(i, count) == index for i in ids]
        shard.push(
            Push(
                *key,
                examples=1,
                member=1,
                step=0,
                pull_version=0,
                gradients=Gradients(
                    [
                        Rows(table, i[m], r[m])
                        for table, (i, r, m) in enumerate(
                            zip(ids, rows, mine, strict=True)
                        )
                    ],
                    self.dense.part(dense, index),
                    self.states.part(states, index),
                ),
            )
        )

    def snapshot(self, job_dir):
        folder = SnapshotFolder(job_dir)
        step = self.shards[0].report().iterations
        place = folder.begin(step)
        entries = [shard.cut(place).entry() for shard in self.shards]
        config = json.loads(JobConfig().to_json())
        manifest = Manifest("j", step, 1, _MODEL, config, tuple(entries))
        return Snapshot(folder.commit(place, manifest))

    def restore(self, snapshot, *, training=True):
        for shard in self.shards:
            shard.restore(snapshot, training=training)
        return self

    def values(self):
        """All values, slots and iterations, whatever the number of shards."""
        parameters = [shard._parameters for shard in self.shards]
        tables = []
        for number in range(len(_MODEL.tables)):
            rows = {}
            for each in parameters:
                ids, weights, slots = each.tables[number].export()
                for i, row_id in enumerate(ids):
                    held = {n: s[i].tolist() for n, s in slots.items()}
                    rows[int(row_id)] = (weights[i].tolist(), held)
            tables.append(rows)
        dense = self.dense.join([p.dense.values for p in parameters])
        states = self.states.join([p.dense.states for p in parameters])
        return (
            tables,
            dense.tolist(),
            states.tolist(),
            {p.iterations for p in parameters},
        )


@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(
    before=st.integers(1, 5),
    after=st.integers(1, 5),
    steps=st.integers(0, 6),
    rate=st.booleans(),
)
def test_training_goes_on_as_if_nothing_had_happened(
    tmp_path_factory, before, after, steps, rate
):
    old = _Job(before).begin()
    old.train(steps, seed=1)
    if rate:
        for shard in old.shards:
            shard.set_learning_rate(0, 0.5)
    snapshot = old.snapshot(tmp_path_factory.mktemp("job"))
    snapshot.check()
    new = _Job(after).restore(snapshot)
    assert new.values() == old.values()
    for job in (old, new):
        job.train(3, seed=2, task=1)
    assert new.values() == old.values()


def test_reading_needs_no_slots(tmp_path):
    old = _Job(2).begin()
    old.train(4)
    new = _Job(3).restore(old.snapshot(tmp_path), training=False)
    ids = np.arange(-20, 20)
    for table in range(len(_MODEL.tables)):
        found = [_read(job, table, ids) for job in (old, new)]
        # Ids without a row begin with the same values as well.
        np.testing.assert_array_equal(*found)
    slots = [t.export()[2] for t in new.shards[0]._parameters.tables]
    assert slots == [{}, {}, {}]


def _read(job, table, ids):
    rows = np.zeros((len(ids), _MODEL.tables[table].dim), np.float32)
    owner = routing.owners(ids, len(job.shards))
    for shard in job.shards:
        mine = owner == shard.index
        rows[mine] = shard.pull([(table, ids[mine])]).rows[0]
    return rows


def test_large_tables_are_written_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("elastic_keras.ps.snapshot._PART_BYTES", 1 << 8)
    job = _Job(1).begin()
    job.train(20)
    snapshot = job.snapshot(tmp_path)
    assert len(snapshot.manifest.shards[0].tables[0].parts) > 1
    assert snapshot.rows(0) == sum(len(r.ids) for r in snapshot.parts(0))
    assert _Job(2).restore(snapshot).values() == job.values()


def test_there_is_nothing_to_write_before_the_first_values(tmp_path):
    shard = Shard(0, 1, StalenessOptions())
    with pytest.raises(NotReadyError):
        shard.cut(tmp_path)


def test_another_model_cannot_be_restored(tmp_path):
    snapshot = _Job(1).begin().snapshot(tmp_path)
    shard = Shard(0, 1, StalenessOptions())
    shard.restore(snapshot, training=False)
    assert shard.initialized
    with pytest.raises(BadRequestError):
        shard.pull([(9, np.arange(2))])
