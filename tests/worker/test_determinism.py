import pathlib
import subprocess
import sys

# Determinism is switched on for a whole process, for good.
PROGRAM = """
import hashlib
import keras
import numpy as np
import tensorflow as tf
from elastic_keras.layers import Embedding
from tests.worker.reference import JobSide, dataset

tf.config.threading.set_intra_op_parallelism_threads(4)
tf.config.threading.set_inter_op_parallelism_threads(4)
keras.utils.set_random_seed(1)
tf.config.experimental.enable_op_determinism()
rng = np.random.default_rng(1)
ids = rng.integers(0, 50, (4096, 20))
labels = rng.normal(size=(4096, 1)).astype(np.float32)
inputs = keras.Input((20,), dtype="int64")
bag = Embedding(8, combiner="mean", mask_zero=True, name="bag")(inputs)
flat = keras.layers.Flatten()(Embedding(8, name="flat")(inputs))
x = keras.layers.Concatenate()([bag, flat])
x = keras.layers.Dropout(0.2)(keras.layers.Dense(32, "relu")(x))
model = keras.Model(inputs, keras.layers.Dense(1)(x))
rows = rng.normal(size=(50, 8)).astype(np.float32)
job = JobSide(
    model,
    dataset((ids, labels), 2048),
    {"bag": rows, "flat": rows},
    metrics=lambda: {"auc": keras.metrics.MeanAbsoluteError()},
)
digest = hashlib.sha256()
for part in job:
    result, _ = job.train(*part)
    for tensor in (*result.row_gradients, result.dense, result.loss):
        digest.update(tensor.numpy().tobytes())
print(digest.hexdigest())
"""


def run():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=pathlib.Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[-1]


def test_deterministic_steps_give_the_same_bits():
    first = run()
    assert len(first) == 64
    assert run() == first
