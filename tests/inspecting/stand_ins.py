"""Snapshots of made-up tables."""

import json

import numpy as np

from elastic_keras import routing
from elastic_keras.config import JobConfig
from elastic_keras.signature import (
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    TableSpec,
)
from elastic_keras.snapshots import files
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.manifest import Manifest, ShardEntry, TableEntry
from elastic_keras.snapshots.snapshot import Snapshot

SEED = 5
_PART_ROWS = 3


def table(name, dim, optimizer=0):
    """A table whose rows begin in (-1, 1)."""
    return TableSpec(
        name, dim, InitializerSpec("uniform", -1.0, 1.0), optimizer
    )


def take(
    job_dir,
    tables,
    *,
    num_shards=2,
    dense=None,
    optimizers=("adam",),
    config=None,
):
    """Writes a snapshot in parts of three rows.

    Args:
        job_dir: The job directory.
        tables: (spec, ids, weights, slots by name) of each table.
        num_shards: Shards that share the rows.
        dense: Values of a dense parameter "kernel".
        optimizers: Names of the optimizers.
        config: The job that trained it.
    """
    dense = np.empty(0, np.float32) if dense is None else dense
    signature = ModelSignature(
        seed=SEED,
        optimizers=tuple(OptimizerSpec(name, 0.1) for name in optimizers),
        dense=(DenseSpec("kernel", dense.shape),) if dense.size else (),
        tables=tuple(spec for spec, *_ in tables),
    )
    folder = SnapshotFolder(job_dir)
    place = folder.begin(7)
    flat = routing.plan(routing.place(signature, num_shards))
    shards = []
    for shard in range(num_shards):
        values = {
            "values": flat.part(dense.reshape(-1), shard),
            "states": np.empty(0, np.float32),
        }
        entry = files.write(place, f"dense-{shard}", values)
        entries = tuple(
            _write(place, f"{shard}-{number}", shard, num_shards, *rows)
            for number, (_, *rows) in enumerate(tables)
        )
        shards.append(ShardEntry(7, 7, (), entry, entries))
    raw = json.loads((config or JobConfig()).to_json())
    manifest = Manifest("job", 7, 2, signature, raw, tuple(shards))
    return Snapshot(folder.commit(place, manifest))


def _write(place, name, shard, num_shards, ids, weights, slots):
    ids = np.asarray(ids, np.int64)
    (mine,) = np.nonzero(routing.owners(ids, num_shards) == shard)
    parts = []
    for start in range(0, len(mine), _PART_ROWS):
        rows = mine[start : start + _PART_ROWS]
        arrays = {
            "ids": ids[rows],
            "weights": np.asarray(weights, np.float32)[rows],
            **{f"slot/{n}": np.asarray(v)[rows] for n, v in slots.items()},
        }
        parts.append(files.write(place, f"{name}-{start}", arrays))
    return TableEntry(len(mine), tuple(parts))
