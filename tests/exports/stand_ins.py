"""Trained models without a job, and processes without elastic_keras."""

import dataclasses
import json
import pathlib
import subprocess
import sys
import textwrap
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from elastic_keras import routing
from elastic_keras.config import JobConfig
from elastic_keras.exports.trained_model import TrainedModel, restore
from elastic_keras.ps.initializers import initial_rows
from elastic_keras.snapshots import files
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.manifest import Manifest, ShardEntry, TableEntry
from elastic_keras.snapshots.snapshot import Snapshot
from elastic_keras.worker.flat import FlatVariables
from elastic_keras.worker.grouping import group
from elastic_keras.worker.lookup import Lookup
from elastic_keras.worker.model import PreparedModel, prepare
from elastic_keras.worker.step import Steps
from elastic_keras.zoo.module import load

HEAD = """
import keras
import numpy as np
import tensorflow as tf
import elastic_keras as ek

loss = keras.losses.MeanSquaredError()

def dataset_fn(dataset, mode, metadata):
    return dataset
"""
# Where the tests run, the package is installed; after this it is not.
HIDE_ELASTIC_KERAS = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "elastic_keras":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
"""
SEED = 5
# Rows of a part: small, so that every table has several.
_PART = 7


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained model as a job would leave it.

    Args:
        job_dir: The job directory.
        snapshot: Its snapshot.
        config: The job.
        features: A batch.
        predictions: What a worker predicts of it.
    """

    job_dir: pathlib.Path
    snapshot: Snapshot
    config: JobConfig
    features: Any
    predictions: Any


def train(
    folder: pathlib.Path,
    module: str,
    features: Any,
    *,
    known: np.ndarray,
    spec: Any = None,
    shards: int = 2,
    threshold: int = 1 << 21,
) -> Trained:
    """Writes a snapshot of a made-up training and predicts with it.

    Args:
        folder: Where the module and the job directory go.
        module: The module's text after `HEAD`.
        features: A batch.
        known: Ids that have rows in every table.
        spec: Spec of the features, if the batch does not tell.
        shards: Number of shards that write.
        threshold: `--embedding_threshold_bytes`.
    """
    path = folder / "module.py"
    path.write_text(HEAD + textwrap.dedent(module))
    job_dir = folder / "job"
    config = JobConfig.from_options(
        model_def=str(path),
        embedding_threshold_bytes=threshold,
        job_dir=str(job_dir),
        seed=SEED,
    )
    keras.utils.clear_session()
    prepared = prepare(
        load(config.model, training=False).custom_model(),
        None,
        None,
        None,
        sample_batch=(features,),
        seed=SEED,
        threshold_bytes=threshold,
        features_spec=spec,
    )
    random = np.random.default_rng(0)
    dense = FlatVariables(prepared.dense)
    values = random.normal(0, 0.3, dense.size).astype(np.float32)
    states = random.uniform(
        0.5, 1.5, FlatVariables(prepared.states).size
    ).astype(np.float32)
    tables = {
        spec.name: random.normal(size=(len(known), spec.dim)).astype(np.float32)
        for spec in prepared.signature.tables
    }
    snapshot = write_snapshot(
        job_dir, prepared, config, known, tables, values, states, shards
    )
    dense.assign(values)
    FlatVariables(prepared.states).assign(states)
    predictions = _predict(prepared, features, known, tables)
    return Trained(job_dir, snapshot, config, features, predictions)


def restored(trained: Trained) -> TrainedModel:
    """Makes the model anew, named as in a new process."""
    keras.utils.clear_session()
    return restore(trained.snapshot, trained.config)


def write_snapshot(
    job_dir: pathlib.Path,
    prepared: PreparedModel,
    config: JobConfig,
    ids: np.ndarray,
    tables: dict[str, np.ndarray],
    values: np.ndarray,
    states: np.ndarray,
    shards: int,
) -> Snapshot:
    """Writes a snapshot of any number of shards."""
    signature = prepared.signature
    folder = SnapshotFolder(job_dir)
    place = folder.begin(3)
    placements = routing.place(signature, shards)
    owners = routing.owners(ids, shards)
    entries = []
    for shard in range(shards):
        dense = files.write(
            place,
            f"shard-{shard}.dense.safetensors",
            {
                "values": routing.split(values, placements)[shard],
                "states": routing.split(states, placements, states=True)[shard],
            },
        )
        mine = np.flatnonzero(owners == shard)
        of_tables = []
        for number, table in enumerate(signature.tables):
            parts = [
                files.write(
                    place,
                    f"shard-{shard}.table-{number}.part-{start}.safetensors",
                    {
                        "ids": ids[mine[start : start + _PART]],
                        "weights": tables[table.name][
                            mine[start : start + _PART]
                        ],
                    },
                )
                for start in range(0, len(mine), _PART)
            ]
            of_tables.append(TableEntry(len(mine), tuple(parts)))
        entries.append(ShardEntry(3, 3, (), dense, tuple(of_tables)))
    manifest = Manifest(
        "job", 3, 1, signature, json.loads(config.to_json()), tuple(entries)
    )
    return Snapshot(folder.commit(place, manifest))


def _predict(
    prepared: PreparedModel,
    features: Any,
    known: np.ndarray,
    tables: dict[str, np.ndarray],
) -> Any:
    """Predicts as a worker does, with rows as shards give them."""
    spec = tf.nest.map_structure(tf.type_spec_from_value, (features,))
    steps = Steps(prepared)
    steps.expect("predict", spec)
    found = Lookup(prepared, spec, training=False).ids((features,))
    rows, inverse = [], []
    for number, (table, all_ids) in enumerate(
        zip(prepared.signature.tables, found, strict=True)
    ):
        grouped, places = group(all_ids.numpy(), 1)
        ids = grouped.ids
        inverse.append(tf.constant(places))
        pulled = initial_rows(table.initializer, SEED, number, ids, table.dim)
        place = {int(each): i for i, each in enumerate(known)}
        for i, each in enumerate(ids):
            if int(each) in place:
                pulled[i] = tables[table.name][place[int(each)]]
        rows.append(tf.constant(pulled))
    outputs = steps.predict((features,), rows, inverse)
    return tf.nest.map_structure(lambda each: each.numpy(), outputs)


def without_elastic_keras(code: str, **arrays: Any) -> dict[str, np.ndarray]:
    """Runs code where elastic_keras cannot be imported.

    Args:
        code: It finds `arrays` by their names, and leaves what it makes in
            the dict `result`.
        **arrays: NumPy arrays, and texts.
    """
    texts = {k: v for k, v in arrays.items() if isinstance(v, str)}
    folder = texts.pop("folder")
    given, made = f"{folder}/given.npz", f"{folder}/made.npz"
    np.savez(
        given, **{k: v for k, v in arrays.items() if not isinstance(v, str)}
    )
    whole = [
        HIDE_ELASTIC_KERAS,
        "import numpy as np",
        f"given = dict(np.load({given!r}))",
        f"globals().update({texts!r})",
        "result = {}",
        textwrap.dedent(code),
        "assert 'elastic_keras' not in sys.modules",
        f"np.savez({made!r}, **result)",
    ]
    done = subprocess.run(
        [sys.executable, "-I", "-c", "\n".join(whole)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(np.load(made))
