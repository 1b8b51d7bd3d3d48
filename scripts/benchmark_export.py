"""Measures the export of a large table, and what serves it.

    python scripts/benchmark_export.py [--rows=20000000] [--dim=16]

A snapshot of two shards is written directly, part by part. Then each of
these is a process of its own: the export, the load in plain TensorFlow with
one lookup of 1,024 ids, half of them unknown. Printed are times and each
process's greatest memory.
"""

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
from absl import app, flags

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

_FLAGS = flags.FLAGS
flags.DEFINE_integer("rows", 20_000_000, "Rows of the table.")
flags.DEFINE_integer("dim", 16, "Width of a row.")
flags.DEFINE_string("formats", "saved_model", "What is exported.")
flags.DEFINE_string("folder", "", "Where to work; empty for a temporary one.")

_SHARDS = 2
_PART_BYTES = 64 << 20
_MODULE = """
import keras
import elastic_keras as ek

def custom_model(dim):
    ids = keras.Input((), dtype="int64", name="ids")
    rows = ek.layers.Embedding(dim, "normal", name="rows")(ids)
    return keras.Model({"ids": ids}, keras.layers.Dense(1, name="y")(rows))

loss = keras.losses.MeanSquaredError()

def dataset_fn(dataset, mode, metadata):
    return dataset
"""
_SERVE = """
import json, resource, sys, time
import numpy as np
began = time.monotonic()
import tensorflow as tf
imported = time.monotonic()
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model = tf.saved_model.load(sys.argv[1])
loaded = time.monotonic()
serve = model.signatures["serving_default"]
rows = int(sys.argv[2])
half = np.random.default_rng(0).integers(0, rows, 512)
# The ids of the table are all odd.
known = half * 2 + 1
ids = tf.constant(np.concatenate([known, half * 2]))
serve(ids=ids)
first = time.monotonic()
rounds = 200
for _ in range(rounds):
    serve(ids=ids)
done = time.monotonic()
assert "elastic_keras" not in sys.modules
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({
    "import": imported - began, "load": loaded - imported,
    "first": first - loaded, "lookup_ms": (done - first) / rounds * 1e3,
    "base_mib": base / 1024, "peak_mib": peak / 1024}))
"""


def _ids(rows: int) -> np.ndarray:
    """Returns odd ids in no order, as shards have them."""
    ids = np.arange(rows, dtype=np.int64) * 2 + 1
    np.random.default_rng(1).shuffle(ids)
    return ids


def _parts(ids: np.ndarray, dim: int) -> Iterator[tuple[np.ndarray, ...]]:
    step = _PART_BYTES // (4 * dim)
    random = np.random.default_rng(2)
    for start in range(0, len(ids), step):
        part = ids[start : start + step]
        yield part, random.standard_normal((len(part), dim), np.float32)


def write_snapshot(job_dir: pathlib.Path, rows: int, dim: int) -> None:
    """Writes a job's snapshot without the job.

    Args:
        job_dir: The job directory.
        rows: Rows of its table.
        dim: Their width.
    """
    job_dir.mkdir(parents=True)
    module = job_dir / "wide.py"
    module.write_text(_MODULE)
    config = JobConfig.from_options(
        model_def=str(module), model_params=f"dim={dim}", job_dir=str(job_dir)
    )
    signature = ModelSignature(
        seed=0,
        optimizers=(OptimizerSpec("sgd", 0.1),),
        dense=(DenseSpec("y/kernel", (dim, 1)), DenseSpec("y/bias", (1,))),
        tables=(TableSpec("rows", dim, InitializerSpec("normal", 0.0, 0.05)),),
        features='{"dict":{"ids":{"dense":{"dtype":"int64","shape":[]}}}}',
    )
    folder = SnapshotFolder(job_dir)
    place = folder.begin(1)
    entries = []
    for shard, ids in enumerate(np.array_split(_ids(rows), _SHARDS)):
        # The larger variable goes to the first shard.
        size = dim if shard == 0 else 1
        dense = files.write(
            place,
            f"shard-{shard}.dense.safetensors",
            {
                "values": np.ones(size, np.float32),
                "states": np.empty(0, np.float32),
            },
        )
        parts = tuple(
            files.write(
                place,
                f"shard-{shard}.table-0.part-{number:05d}.safetensors",
                {"ids": part, "weights": weights},
            )
            for number, (part, weights) in enumerate(_parts(ids, dim))
        )
        entries.append(
            ShardEntry(1, 1, (), dense, (TableEntry(len(ids), parts),))
        )
    manifest = Manifest(
        "benchmark",
        1,
        1,
        signature,
        json.loads(config.to_json()),
        tuple(entries),
    )
    folder.commit(place, manifest)


def _run(*command: str) -> tuple[float, float, str]:
    """Runs a process; returns seconds, MiB of its children's peak, output."""
    code = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)\n"
        "sys.stdout.buffer.write(done.stdout)\n"
        "peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss\n"
        "print(peak)\n"
        "sys.exit(done.returncode)"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
    )
    seconds = time.monotonic() - began
    *lines, peak = done.stdout.splitlines()
    return seconds, int(peak) / 1024, "\n".join(lines)


def _size(folder: pathlib.Path) -> float:
    files_of = (path for path in folder.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files_of) / 2**20


def main(argv: list[str]) -> None:
    """Runs the benchmark."""
    rows, dim = _FLAGS.rows, _FLAGS.dim
    own = tempfile.mkdtemp(dir=_FLAGS.folder or None)
    try:
        folder = pathlib.Path(own)
        began = time.monotonic()
        write_snapshot(folder / "job", rows, dim)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"snapshot: {rows:,} rows x {dim}, {_size(folder / 'job'):,.0f} "
            f"MiB, {time.monotonic() - began:.1f} s, this process's peak "
            f"{peak:,.0f} MiB",
            flush=True,
        )
        seconds, peak, said = _run(
            sys.executable,
            "-m",
            "elastic_keras.cli",
            "export",
            f"--job_dir={folder / 'job'}",
            f"--output={folder / 'out'}",
            f"--formats={_FLAGS.formats}",
        )
        print(said)
        print(
            f"export: {_size(folder / 'out'):,.0f} MiB, {seconds:.1f} s, "
            f"peak {peak:,.0f} MiB",
            flush=True,
        )
        if "saved_model" not in _FLAGS.formats:
            return
        _, _, text = _run(
            sys.executable,
            "-I",
            "-c",
            _SERVE,
            str(folder / "out" / "saved_model"),
            str(rows),
        )
        told = json.loads(text.splitlines()[-1])
        print(
            f"served: TensorFlow's import {told['import']:.1f} s and "
            f"{told['base_mib']:,.0f} MiB; load {told['load']:.2f} s, first "
            f"call {told['first'] * 1e3:.0f} ms, then "
            f"{told['lookup_ms']:.2f} ms for 1,024 ids; "
            f"peak {told['peak_mib']:,.0f} MiB"
        )
    finally:
        shutil.rmtree(own)


if __name__ == "__main__":
    app.run(main)
