"""Brings a trained model's rows back into its layers."""

import json
import pathlib

import numpy as np

from elastic_keras.config import JobConfig
from elastic_keras.layers import Embedding
from elastic_keras.ps.initializers import initial_rows
from elastic_keras.snapshots.manifest import Manifest, ShardEntry
from elastic_keras.snapshots.snapshot import MANIFEST, Snapshot
from elastic_keras.wire.proto import ps_pb2
from elastic_keras.worker import swap
from elastic_keras.worker.model import PreparedModel


def bring_back(
    prepared: PreparedModel,
    place: pathlib.Path,
    replies: list[ps_pb2.SnapshotReply],
) -> None:
    """Gives a model's layers their rows; they are ordinary layers again.

    Args:
        prepared: The model.
        place: Where the shards have written their parts.
        replies: What they said.
    """
    manifest = Manifest(
        job_id="",
        step=0,
        epoch=0,
        signature=prepared.signature,
        config=json.loads(JobConfig().to_json()),
        shards=tuple(ShardEntry.from_json(reply.shard) for reply in replies),
    )
    (place / MANIFEST).write_text(manifest.to_json())
    snapshot = Snapshot(place)
    for number, layer in enumerate(prepared.tables):
        parts = list(snapshot.parts(number))
        spec = prepared.signature.tables[number]
        ids = np.concatenate([np.empty(0, np.int64), *(p.ids for p in parts)])
        rows = np.concatenate(
            [np.empty((0, spec.dim), np.float32), *(p.weights for p in parts)]
        )
        seed = prepared.signature.seed
        if isinstance(layer, Embedding):
            layer.assign_rows(ids, rows, seed=seed, table_index=number)
            continue
        every = np.arange(layer.input_dim)
        whole = initial_rows(spec.initializer, seed, number, every, spec.dim)
        whole[ids] = rows
        swap.restore(layer, whole)
