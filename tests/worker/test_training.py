"""The pipeline with a real model, real data and real shards."""

import json
import pathlib
import subprocess
import sys

import pytest

# Determinism is switched on for a whole process, for good.
PROGRAM = """
import hashlib, json, sys, threading
import keras
import numpy as np
import tensorflow as tf
import elastic_keras as ek
from elastic_keras.config import StalenessOptions
from elastic_keras.data.reader import Counts
from elastic_keras.worker.computing import TrainComputing, decode_states
from elastic_keras.worker.job_data import TaskBatches
from elastic_keras.worker.lookup import Lookup
from elastic_keras.worker.model import prepare
from elastic_keras.worker.pipeline import Pipeline
from elastic_keras.worker.stats import WorkerStats
from elastic_keras.worker.step import Steps
from elastic_keras.worker.window import window
from elastic_keras.wire.proto import ps_pb2
from tests.worker.stand_ins import ScriptedMaster, Shards, train_task

num_shards, max_staleness = int(sys.argv[1]), int(sys.argv[2])
keras.utils.set_random_seed(7)
tf.config.experimental.enable_op_determinism()
rng = np.random.default_rng(7)
ids = rng.integers(0, 40, (512, 6))
effect = rng.normal(size=40)
labels = (effect[ids].sum(1, keepdims=True) > 0).astype(np.float32)

inputs = keras.Input((6,), dtype="int64")
x = keras.layers.Flatten()(ek.layers.Embedding(8, name="rows")(inputs))
x = keras.layers.Dropout(0.1)(keras.layers.BatchNormalization()(x))
x = keras.layers.Dense(16, "relu")(x)
model = keras.Model(inputs, keras.layers.Dense(1, "sigmoid")(x))
dataset = tf.data.Dataset.from_tensor_slices((ids, labels)).batch(32)
prepared = prepare(
    model,
    keras.losses.BinaryCrossentropy(),
    keras.optimizers.Adam(0.02),
    lambda: {"auc": keras.metrics.AUC()},
    sample_batch=next(iter(dataset)),
    seed=7,
    threshold_bytes=1 << 20,
)
steps = Steps(prepared)
steps.expect("train", dataset.element_spec)
lookup = Lookup(prepared, dataset.element_spec)
options = StalenessOptions(max_staleness=max_staleness)
with Shards(num_shards, options) as shards:
    client = shards.client_of(prepared.signature)
    client.join()
    client.init_dense(steps.get_dense(), steps.get_states())
    tasks = [train_task(i, i + 1) for i in range(4)]
    master = ScriptedMaster(shards.shards, tasks)
    stats = WorkerStats()
    Pipeline(
        client=client,
        master=master,
        computing=TrainComputing(steps, stats),
        open_data=lambda task: TaskBatches(
            lookup.map(dataset), Counts(512, 0), num_shards
        ),
        other_task=lambda task: None,
        describe=lambda error: {"error": repr(error)},
        window=window(options, 1),
        reserve=False,
    ).run()
    digest = hashlib.sha256()
    rows = shards.rows()
    for key in sorted(rows):
        digest.update(np.asarray(rows[key], np.float32).tobytes())
    from elastic_keras.worker.grouping import group
    pulled = client.pull([group(np.arange(0), num_shards)[0]])
    digest.update(pulled.dense.dense.tobytes())
    digest.update(pulled.dense.states.tobytes())
heartbeat = stats.take()
metrics = [
    steps.train_metrics.result_from(decode_states(report.states))
    for report in master.reports
]
print(json.dumps({
    "digest": digest.hexdigest(),
    "rows": len(rows),
    "errors": [report.error for report in master.reports],
    "steps": heartbeat.steps,
    "examples": heartbeat.examples,
    "iterations": pulled.iterations,
    "first": metrics[0],
    "last": metrics[-1],
}))
"""


@pytest.fixture(scope="module")
def train():
    """Returns a function that trains in a process of its own, once each."""
    done = {}

    def run(num_shards, max_staleness, run=0):
        key = num_shards, max_staleness, run
        if key not in done:
            process = subprocess.run(
                [sys.executable, "-c", PROGRAM, *map(str, key[:2])],
                capture_output=True,
                text=True,
                cwd=pathlib.Path(__file__).parents[2],
                check=False,
            )
            assert process.returncode == 0, process.stderr
            done[key] = json.loads(process.stdout.splitlines()[-1])
        return done[key]

    return run


def test_a_model_learns(train):
    result = train(1, 0)
    assert result["errors"] == [""] * 4
    assert result["first"]["auc"] < 0.8
    assert result["last"]["auc"] > 0.9
    assert result["last"]["loss"] < 0.7 * result["first"]["loss"]
    assert result["rows"] == 40
    assert (result["steps"], result["examples"]) == (64, 2048)
    assert result["iterations"] == 64


@pytest.mark.parametrize(("num_shards", "run"), [(1, 1), (3, 0)])
def test_one_synchronous_worker_gives_the_same_bits(train, num_shards, run):
    assert train(num_shards, 0, run)["digest"] == train(1, 0)["digest"]


def test_stale_steps_give_other_bits(train):
    result = train(1, 3)
    assert result["last"]["auc"] > 0.9
    assert result["digest"] != train(1, 0)["digest"]
