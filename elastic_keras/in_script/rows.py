"""Brings a trained model's rows back into its layers."""

import json
import pathlib

from elastic_keras.config import JobConfig
from elastic_keras.layers import Embedding
from elastic_keras.layers.whole_tables import rows_below, whole_table
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
        if isinstance(layer, Embedding):
            ids, rows = whole_table(snapshot, number)
            seed = prepared.signature.seed
            layer.assign_rows(ids, rows, seed=seed, table_index=number)
        else:
            swap.restore(layer, rows_below(snapshot, number, layer.input_dim))
