"""A shard with a journal, without sockets, that can be killed."""

import dataclasses
import json
import pathlib

import numpy as np

from elastic_keras import routing
from elastic_keras.config import (
    DataOptions,
    JobConfig,
    SnapshotOptions,
    StalenessOptions,
)
from elastic_keras.ps import recovery
from elastic_keras.ps.journal import segments
from elastic_keras.ps.push import Gradients, Push, Rows
from elastic_keras.ps.shard import Shard
from elastic_keras.signature import (
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    StateSpec,
    TableSpec,
)
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.manifest import Manifest

MODEL = ModelSignature(
    seed=5,
    optimizers=(
        OptimizerSpec("adam", 0.01, use_ema=True),
        OptimizerSpec("nadam", 0.02),
    ),
    dense=(DenseSpec("a", (4, 3)), DenseSpec("b", (5,), optimizer=1)),
    states=(StateSpec("mean", (3,)),),
    tables=(
        TableSpec("users", 2, InitializerSpec("uniform", -1.0, 1.0)),
        TableSpec("items", 3, optimizer=1),
    ),
)


class Job:
    """The shards of a job in a folder; each may be killed and started.

    Args:
        job_dir: The job directory.
        num_shards: Number of shards.
        journal: Whether they keep one.
        restore_from: A snapshot to go on from.
        job_id: The job's id.
        **options: The bound on staleness.
    """

    def __init__(
        self,
        job_dir,
        num_shards=1,
        *,
        journal=True,
        restore_from="",
        job_id="j",
        **options,
    ):
        self.job_dir = str(job_dir)
        self.config = dataclasses.replace(
            JobConfig(),
            data=DataOptions(training_data="x"),
            staleness=StalenessOptions(**options),
            snapshots=SnapshotOptions(
                restore_from=restore_from, journal=journal
            ),
            job_id=job_id,
            ps_addresses=tuple(f"unix:{i}" for i in range(num_shards)),
        )
        folder = pathlib.Path(job_dir)
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(self.config.to_json())
        self.placements = routing.place(MODEL, num_shards)
        self.dense = routing.plan(self.placements)
        self.states = routing.plan(self.placements, states=True)
        self.folder = segments.folder_of(job_dir, 0)
        self.restored = [None] * num_shards
        self.shards = [None] * num_shards
        for index in range(num_shards):
            self.start(index)

    @property
    def shard(self):
        """The first shard."""
        return self.shards[0]

    def start(self, index=0):
        """Starts a shard; one that was there is gone as if killed."""
        shard = Shard(index, len(self.shards), self.config.staleness)
        self.restored[index] = recovery.restore(
            shard, self.config, self.job_dir
        )
        self.shards[index] = shard
        return shard

    def begin(self):
        """Lets a first worker join."""
        dense = np.linspace(-1, 1, self.dense.size, dtype=np.float32)
        states = np.ones(self.states.size, np.float32)
        for index, shard in enumerate(self.shards):
            shard.adopt(MODEL)
            shard.init_dense(
                self.dense.part(dense, index), self.states.part(states, index)
            )
            shard.set_members(1, [1, 2])
        return self

    def push(self, batch, *, index=0, **fields):
        """Pushes gradients that are a function of the batch."""
        random = np.random.default_rng(batch)
        tables = []
        for table, spec in enumerate(MODEL.tables):
            ids = np.unique(random.integers(-9, 9, 6))
            values = random.normal(size=(len(ids), spec.dim))
            mine = routing.owners(ids, len(self.shards)) == index
            rows = values.astype(np.float32)[mine]
            tables.append(Rows(table, ids[mine], rows))
        push = Push(
            epoch=0,
            task=batch // 5,
            batch=batch % 5,
            examples=8,
            member=1,
            step=batch,
            pull_version=0,
            gradients=Gradients(
                tables,
                self.dense.part(_normal(random, self.dense.size), index),
                self.states.part(_normal(random, self.states.size), index),
            ),
        )
        push = dataclasses.replace(push, **fields)
        return self.shards[index].push(push)

    def snapshot(self, *, commit=True):
        """Takes a job snapshot; returns its path."""
        folder = SnapshotFolder(self.job_dir)
        steps = [int(path.name[5:]) for path in folder.all()]
        step = max([*steps, 0]) + 1
        place = folder.begin(step)
        cuts = [shard.cut(place) for shard in self.shards]
        manifest = Manifest(
            job_id=self.config.job_id,
            step=step,
            epoch=1,
            signature=MODEL,
            config=json.loads(self.config.to_json()),
            shards=tuple(cut.entry() for cut in cuts),
        )
        path = folder.commit(place, manifest)
        if commit:
            for shard, cut in zip(self.shards, cuts, strict=True):
                if shard.journal is not None:
                    shard.journal.commit(cut.moment.segment)
        return path


def _normal(random, size):
    return random.normal(size=size).astype(np.float32)


def state(shard):
    """Everything that a shard is, with the bits of its numbers."""
    parameters, books = shard._parameters, shard._books
    if parameters is None:
        return None
    dense = parameters.dense
    arrays = {"values": dense.values, "states": dense.states, **dense.slots()}
    for number, table in enumerate(parameters.tables):
        ids, weights, slots = table.export()
        arrays |= {f"{number}/{k}": v for k, v in slots.items()}
        arrays |= {f"{number} ids": ids, f"{number} weights": weights}
    buffered, more = shard._updates.buffer.to_state()
    arrays |= {f"buffer {k}": v for k, v in more.items()}
    return (
        {name: (a.shape, a.tobytes()) for name, a in arrays.items()},
        parameters.iterations,
        parameters.set_rates,
        shard.initialized,
        buffered,
        # The list grows in place.
        json.loads(json.dumps(books.to_state(), default=bytes.hex)),
    )
