"""Measures what the shards cost a worker: examples/s with and without them.

    python scripts/benchmark_step.py [--batch_sizes=1024,4096] [--rows=...]

DeepFM (model_zoo/criteo/deepfm.py): 26 features of width 16 with a linear
weight each, MLP 256-128-64, Adagrad. "With" is the worker's whole pipeline,
one worker and one shard, two processes over a Unix socket: ids found and made
unique in tf.data, pull, step, push. "Without" is the same compiled step alone
on rows that are already in memory. Both are measured in turns. With --rows
it also measures the step with so many rows in the table.
"""

import json
import os
import pathlib
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

import numpy as np
from absl import app, flags

from elastic_keras.config import StalenessOptions

_FLAGS = flags.FLAGS
flags.DEFINE_list("batch_sizes", ["1024", "4096"], "Examples in a batch.")
flags.DEFINE_list("rows", [], "Rows of the table, e.g. 100000,1000000.")
flags.DEFINE_integer("rounds", 4, "Turns of each side.")
flags.DEFINE_float("seconds", 4.0, "Time of a turn, about.")
flags.DEFINE_integer("max_staleness", 4, "The bound of the policy wait.")
flags.DEFINE_integer("vocabulary", 1_000_000, "Ids of all features together.")
flags.DEFINE_float("skew", 1.05, "Exponent of the ids' power law; 0 is none.")
flags.DEFINE_integer("threads", 0, "Intra-op threads; 0 as in a job.")
flags.DEFINE_string("output", "", "File for the figures as JSON.")

_FEATURES = 26
_NUMBERS = 13
_DISTINCT_BATCHES = 16
_PATIENCE = 600.0


class Batches:
    """Synthetic batches in memory.

    Args:
        batch_size: Examples in each.
        vocabulary: Number of ids.
        skew: Exponent of the power law of ids; 0 draws them evenly.
        distinct: Every batch has equally many distinct ids, so that only
            the size of the table differs.
    """

    def __init__(
        self, batch_size: int, vocabulary: int, skew: float, distinct: bool
    ) -> None:
        random = np.random.default_rng(0)
        shape = (_DISTINCT_BATCHES, batch_size, _FEATURES)
        if distinct:
            self.ids = _distinct(random, shape, vocabulary)
        else:
            self.ids = _power_law(random, shape, vocabulary, skew)
        self.numbers = random.normal(
            size=(_DISTINCT_BATCHES, batch_size, _NUMBERS)
        ).astype(np.float32)
        self.labels = random.integers(
            0, 2, (_DISTINCT_BATCHES, batch_size, 1)
        ).astype(np.float32)


def _power_law(
    random: np.random.Generator,
    shape: tuple[int, ...],
    vocabulary: int,
    skew: float,
) -> np.ndarray:
    per_feature = vocabulary // _FEATURES
    weights = np.arange(1, per_feature + 1, dtype=np.float64) ** -skew
    ranks = np.searchsorted(
        np.cumsum(weights / weights.sum()), random.random(shape)
    )
    # Of an id only its feature and rank are known; a shard spreads them.
    return (ranks + np.arange(_FEATURES) * per_feature).astype(np.int64)


def _distinct(
    random: np.random.Generator, shape: tuple[int, ...], vocabulary: int
) -> np.ndarray:
    size = shape[1] * shape[2]
    batches = [
        random.choice(vocabulary, size, replace=False) for _ in range(shape[0])
    ]
    return np.stack(batches).reshape(shape).astype(np.int64)


class Bench:
    """A worker without a master, and its shard.

    Args:
        shard_address: The shard's address.
        job_id: Its job.
        token: Its token.
        batches: What to train on.
    """

    def __init__(
        self, shard_address: str, job_id: str, token: str, batches: Batches
    ) -> None:
        import tensorflow as tf

        from elastic_keras.config import ModelOptions, WireOptions
        from elastic_keras.worker.client import PsClient
        from elastic_keras.worker.computing import TrainComputing
        from elastic_keras.worker.lookup import Lookup
        from elastic_keras.worker.model import prepare
        from elastic_keras.worker.stats import WorkerStats
        from elastic_keras.worker.step import Steps
        from elastic_keras.zoo.module import load

        root = pathlib.Path(__file__).parents[1]
        zoo = load(
            ModelOptions(
                model_zoo=str(root / "model_zoo"), model_def="criteo.deepfm"
            )
        )
        self._dataset = tf.data.Dataset.from_tensor_slices(
            (
                {"numbers": batches.numbers, "ids": batches.ids},
                batches.labels,
            )
        )
        sample = next(iter(self._dataset))
        prepared = prepare(
            zoo.custom_model(),
            zoo.loss,
            zoo.optimizer(),
            zoo.eval_metrics_fn,
            sample_batch=sample,
            seed=0,
            threshold_bytes=2 << 20,
        )
        self._steps = Steps(prepared)
        self._steps.expect("train", self._dataset.element_spec)
        self._lookup = Lookup(prepared, self._dataset.element_spec)
        self.stats = WorkerStats()
        self._computing = TrainComputing(self._steps, self.stats)
        self.client = PsClient(
            [shard_address],
            prepared.signature,
            job_id=job_id,
            wire=WireOptions(),
            token=token,
            stats=self.stats,
        )
        self.client.join()
        self.client.init_dense(
            self._steps.get_dense(), self._steps.get_states()
        )
        self._tasks = 0
        self._set_members = _members_setter(shard_address, token)
        self.unique = 0

    def with_shard(self, steps: int) -> float:
        """Trains a task of so many batches; returns seconds per step."""
        from elastic_keras.worker.pipeline import Pipeline
        from elastic_keras.worker.window import window

        self._tasks += 1
        self._set_members(self._tasks)
        computing = _Timed(self._computing, skip=min(10, steps // 5))
        pipeline = Pipeline(
            client=self.client,
            master=_Script(self._tasks),  # type: ignore[arg-type]
            computing=computing,  # type: ignore[arg-type]
            open_data=lambda task: self._data(steps),
            other_task=lambda task: None,
            describe=_raise,
            window=window(_options(), 1),
            reserve=False,
        )
        pipeline.run()
        return computing.seconds_per_step

    def without_shard(self, steps: int) -> float:
        """Runs the compiled step alone; returns seconds per step."""
        inputs = self._in_memory()
        start = time.perf_counter()
        for i in range(steps):
            batch, rows, inverse = inputs[i % len(inputs)]
            result = self._steps.train(batch, rows, inverse)
        float(result.loss)
        return (time.perf_counter() - start) / steps

    def _in_memory(self) -> list[tuple]:
        import tensorflow as tf

        made = []
        unique = []
        for batch, ids in self._lookup.map(self._dataset):
            rows = [tf.random.normal((len(ids.unique[0]), 17), stddev=0.01)]
            unique.append(len(ids.unique[0]))
            made.append((batch, rows, list(ids.inverse)))
        self.unique = int(np.mean(unique))
        return made

    def _data(self, steps: int) -> Any:
        from elastic_keras.data.reader import Counts
        from elastic_keras.worker.job_data import TaskBatches

        dataset = self._lookup.map(self._dataset.repeat()).take(steps)
        return TaskBatches(dataset.prefetch(2), Counts(), 1)

    def fill(self, rows: int) -> None:
        """Makes rows exist by pushing gradients of zero."""
        from elastic_keras.worker.grouping import GroupedIds
        from elastic_keras.worker.values import Push, StepGradients

        dense = np.zeros_like(self._steps.get_dense())
        size = 100_000
        self._tasks += 1
        for batch, start in enumerate(range(0, rows, size)):
            ids = np.arange(start, min(start + size, rows), dtype=np.int64)
            self.client.push(
                Push(
                    key=(0, self._tasks, batch),
                    examples=1,
                    member=0,
                    step=0,
                    versions=(0,),
                    ids=[GroupedIds(ids, (0, len(ids)))],
                    gradients=StepGradients(
                        [np.zeros((len(ids), 17), np.float32)],
                        dense,
                        np.empty(0, np.float32),
                    ),
                )
            )


class _Timed:
    """Times the steps of a pipeline, the first ones left out."""

    def __init__(self, computing: object, skip: int) -> None:
        self._computing = computing
        self._skip = skip
        self._times: list[float] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._computing, name)

    def compute(self, *args: object, **kwargs: object) -> object:
        made = self._computing.compute(*args, **kwargs)  # type: ignore[attr-defined]
        self._times.append(time.perf_counter())
        return made

    @property
    def seconds_per_step(self) -> float:
        times = self._times[self._skip :]
        return (times[-1] - times[0]) / (len(times) - 1)


class _Script:
    """A master that hands out one task and then ends the job."""

    def __init__(self, task: int) -> None:
        self._task = task
        self._given = False
        self._done = threading.Event()

    def get_task(self, *, interrupted: bool = False) -> object:
        from elastic_keras.wire.proto import master_pb2

        if not self._given:
            self._given = True
            return master_pb2.Task(
                kind=master_pb2.TASK_TRAIN,
                task=self._task,
                epoch=1,
                lease=1,
                member=self._task,
            )
        if not self._done.wait(_PATIENCE):
            raise TimeoutError("The benchmark hangs.")
        return master_pb2.Task(kind=master_pb2.TASK_STOP)

    def report(self, request: object) -> None:
        self._done.set()


def _raise(error: BaseException) -> dict:
    raise error


def _options() -> StalenessOptions:
    return StalenessOptions(max_staleness=_FLAGS.max_staleness)


def _members_setter(address: str, token: str):  # type: ignore[no-untyped-def]
    from elastic_keras.wire import rpc
    from elastic_keras.wire.proto import ps_pb2

    client = rpc.Client(
        address,
        ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"],
        token=token,
    )

    def set_members(member: int) -> None:
        client.call(
            "SetMembers",
            ps_pb2.SetMembersRequest(number=member, members=[member]),
        )

    return set_members


class Shard:
    """One shard's process, ended with the block."""

    def __init__(self, folder: str) -> None:
        import dataclasses

        from elastic_keras.config import ClusterOptions, JobConfig

        self.job_id = "benchmark"
        self.token = secrets.token_hex(16)
        self.address = f"unix:{folder}/ps-0.sock"
        config = dataclasses.replace(
            JobConfig(),
            staleness=_options(),
            cluster=ClusterOptions(job_dir=folder),
            job_id=self.job_id,
            ps_addresses=(self.address,),
        )
        self._folder = pathlib.Path(folder)
        (self._folder / "config.json").write_text(config.to_json())

    def __enter__(self) -> "Shard":
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "elastic_keras.ps.main",
                f"--job_dir={self._folder}",
                "--index=0",
            ],
            env={**os.environ, "EK_JOB_TOKEN": self.token},
            stderr=open(self._folder / "ps-0.log", "w"),
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait()

    def cpu_seconds(self) -> float:
        """Returns the processor time that it has used."""
        import psutil

        times = psutil.Process(self._process.pid).cpu_times()
        return times.user + times.system


def _ratio(batch_size: int, folder: str) -> dict:
    batches = Batches(batch_size, _FLAGS.vocabulary, _FLAGS.skew, False)
    with Shard(folder) as shard:
        bench = Bench(shard.address, shard.job_id, shard.token, batches)
        bench.without_shard(5)
        steps = max(30, int(_FLAGS.seconds / bench.without_shard(10)))
        bench.with_shard(steps)
        bench.stats.take()
        alone, with_shard = [], []
        cpu = {"alone": 0.0, "worker": 0.0, "shard": 0.0}
        for _ in range(_FLAGS.rounds):
            start = time.process_time()
            alone.append(bench.without_shard(steps))
            middle = time.process_time()
            of_shard = shard.cpu_seconds()
            with_shard.append(bench.with_shard(steps))
            cpu["alone"] += middle - start
            cpu["worker"] += time.process_time() - middle
            cpu["shard"] += shard.cpu_seconds() - of_shard
        taken = bench.stats.take()
    best = statistics.median(alone)
    ours = statistics.median(with_shard)
    return {
        "batch_size": batch_size,
        "unique_ids": bench.unique,
        "steps_per_turn": steps,
        "alone_ms": [round(1e3 * s, 2) for s in alone],
        "with_shard_ms": [round(1e3 * s, 2) for s in with_shard],
        "alone_examples_per_second": round(batch_size / best),
        "examples_per_second": round(batch_size / ours),
        "ratio": round(best / ours, 3),
        "cpu_ms": {
            name: round(1e3 * seconds / steps / _FLAGS.rounds, 2)
            for name, seconds in cpu.items()
        },
        "pull_ms": round(1e3 * taken.pull.seconds / taken.pull.count, 2),
        "push_ms": round(1e3 * taken.push.seconds / taken.push.count, 2),
        "pull_bytes": taken.pull.bytes // taken.pull.count,
        "push_bytes": taken.push.bytes // taken.push.count,
    }


def _rows(sizes: list[int], folder: pathlib.Path) -> list[dict]:
    """Measures steps on tables of several sizes, in turns."""
    found: dict[int, list[float]] = {size: [] for size in sizes}
    shards, benches = [], {}
    try:
        for size in sizes:
            place = folder / f"rows-{size}"
            place.mkdir()
            shard = Shard(str(place))
            shards.append(shard.__enter__())
            bench = Bench(
                shard.address,
                shard.job_id,
                shard.token,
                Batches(1024, size, 0.0, True),
            )
            bench.fill(size)
            bench.with_shard(30)
            benches[size] = bench
        for _ in range(_FLAGS.rounds):
            for size, bench in benches.items():
                found[size].append(bench.with_shard(100))
    finally:
        for shard in shards:
            shard.__exit__()
    return [
        {
            "rows": size,
            "step_ms": [round(1e3 * s, 2) for s in times],
            "median_ms": round(1e3 * statistics.median(times), 2),
        }
        for size, times in found.items()
    ]


def _print_table(figures: dict) -> None:
    for entry in figures["ratio"]:
        print(
            f"batch {entry['batch_size']:>5}: "
            f"{entry['examples_per_second']:>8,} examples/s with the shard, "
            f"{entry['alone_examples_per_second']:>8,} alone, "
            f"ratio {entry['ratio']:.2f} "
            f"(pull {entry['pull_ms']} ms, push {entry['push_ms']} ms, "
            f"{entry['unique_ids']:,} unique ids; processor ms a step: "
            f"{entry['cpu_ms']})"
        )
    for entry in figures["rows"]:
        print(f"{entry['rows']:>12,} rows: {entry['median_ms']:.2f} ms a step")


# As the launcher sets them for a job's processes.
_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}


def _main(argv: list[str]) -> None:
    if os.environ.keys().isdisjoint(_ENVIRONMENT):
        os.execve(
            sys.executable,
            [sys.executable, *sys.argv],
            {**_ENVIRONMENT, **os.environ},
        )
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    if _FLAGS.threads:
        tf.config.threading.set_intra_op_parallelism_threads(_FLAGS.threads)
    figures: dict = {"ratio": [], "rows": []}
    with tempfile.TemporaryDirectory(prefix="ek-bench-") as folder:
        for size in _FLAGS.batch_sizes:
            place = pathlib.Path(folder) / f"batch-{size}"
            place.mkdir()
            figures["ratio"].append(_ratio(int(size), str(place)))
        if _FLAGS.rows:
            figures["rows"] = _rows(
                [int(size) for size in _FLAGS.rows], pathlib.Path(folder)
            )
    _print_table(figures)
    print(json.dumps(figures))
    if _FLAGS.output:
        pathlib.Path(_FLAGS.output).write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    app.run(_main)
