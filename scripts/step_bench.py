"""What `benchmark_step.py` measures: a worker without a master, and a shard.

Importing it imports TensorFlow, whose settings must stand before that.
"""

import pathlib
import threading
import time
from typing import Any

import numpy as np
import tensorflow as tf
from bench_shard import Shard

from elastic_keras.config import ModelOptions, WireOptions
from elastic_keras.data.reader import Counts
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import master_pb2, ps_pb2, tensor_pb2
from elastic_keras.worker.client import PsClient
from elastic_keras.worker.computing import TrainComputing
from elastic_keras.worker.grouping import GroupedIds, group
from elastic_keras.worker.job_data import TaskBatches
from elastic_keras.worker.lookup import Lookup
from elastic_keras.worker.model import prepare
from elastic_keras.worker.pipeline import Pipeline
from elastic_keras.worker.stats import WorkerStats
from elastic_keras.worker.step import Steps
from elastic_keras.worker.values import Push, StepGradients
from elastic_keras.worker.window import window
from elastic_keras.zoo.module import load

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
        shard: The shard.
        batches: What to train on.
    """

    def __init__(self, shard: "Shard", batches: Batches) -> None:

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
            [shard.address],
            prepared.signature,
            job_id=shard.job_id,
            wire=WireOptions(),
            token=shard.token,
            stats=self.stats,
        )
        self.client.join()
        self.client.init_dense(
            self._steps.get_dense(), self._steps.get_states()
        )
        self._tasks = 0
        # Asks what the master would.
        self._master = rpc.Client(
            shard.address,
            ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"],
            token=shard.token,
        )
        self._window = window(shard.options, 1)
        self.unique = 0

    def status(self) -> ps_pb2.ShardStatus:
        """Returns the shard's rows and bytes."""
        status = self._master.call("GetStatus", tensor_pb2.Empty())
        assert isinstance(status, ps_pb2.ShardStatus)
        return status

    def with_shard(self, steps: int) -> float:
        """Trains a task of so many batches; returns seconds per step."""
        self._tasks += 1
        self._master.call(
            "SetMembers",
            ps_pb2.SetMembersRequest(number=self._tasks, members=[self._tasks]),
        )
        computing = _Timed(self._computing, skip=min(10, steps // 5))
        pipeline = Pipeline(
            client=self.client,
            master=_Script(self._tasks),  # type: ignore[arg-type]
            computing=computing,  # type: ignore[arg-type]
            open_data=lambda task: self._data(steps),
            other_task=lambda task: None,
            describe=_raise,
            window=self._window,
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

        made = []
        unique = []
        for batch, (ids,) in self._lookup.map(self._dataset):
            grouped, inverse = group(ids.numpy(), 1)
            rows = [tf.random.normal((len(grouped.ids), 17), stddev=0.01)]
            unique.append(len(grouped.ids))
            made.append((batch, rows, [tf.constant(inverse)]))
        self.unique = int(np.mean(unique))
        return made

    def _data(self, steps: int) -> Any:

        dataset = self._lookup.map(self._dataset.repeat()).take(steps)
        return TaskBatches(dataset.prefetch(2), Counts(), 1)

    def fill(self, rows: int) -> None:
        """Makes rows exist by pushing gradients of zero."""
        size = 100_000
        for start in range(0, rows, size):
            self.push(np.arange(start, min(start + size, rows), dtype=np.int64))

    def push(self, ids: np.ndarray) -> None:
        """Pushes a batch of its own with gradients of zero.

        Args:
            ids: int64, `(n,)`, all different.
        """
        self._tasks += 1
        self.client.push(
            Push(
                key=(0, self._tasks, 0),
                examples=1,
                member=0,
                step=0,
                versions=(0,),
                ids=[GroupedIds(ids, (0, len(ids)))],
                gradients=StepGradients(
                    [np.zeros((len(ids), 17), np.float32)],
                    np.zeros_like(self._steps.get_dense()),
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
