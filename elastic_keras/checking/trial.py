"""One batch of each mode, through a worker's own parts."""

import contextlib
import logging
import math
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from elastic_keras.checking.blame import Blame
from elastic_keras.checking.parts import named_parts
from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.ps.initializers import initial_rows
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker import items, swap
from elastic_keras.worker.batches import unpack
from elastic_keras.worker.callbacks import check_tables
from elastic_keras.worker.job_data import JobData
from elastic_keras.worker.model import PreparedModel, prepare
from elastic_keras.worker.step import Steps
from elastic_keras.zoo.module import ZooModule

# A filter of dataset_fn may leave nothing of the first few records.
_BATCHES = 8
_DATA = ("dataset_fn", "feed")


class Trial:
    """Runs a module's steps on rows that no shard holds.

    Args:
        config: The job; each mode has data.
        zoo: The module.
        blame: Says which lines of it an error is about.
    """

    def __init__(self, config: JobConfig, zoo: ZooModule, blame: Blame) -> None:
        self.config = config
        self.zoo = zoo
        self._blame = blame
        self._data = JobData(config, zoo, num_shards=1)
        # The first batch as `dataset_fn` makes it for training.
        self.sample: Any = None
        self._steps: Steps
        self.prepared: PreparedModel
        # Why a large Embedding of Keras is no PS table, by the layer's name.
        self.reasons: dict[str, str] = {}
        # The first training batch, with the ids that its step needs.
        self.batch: items.Batch
        self.loss = math.nan
        self.values: dict[str, float] = {}
        self.predictions: Any = None

    def read(self) -> None:
        """Makes the first training batch."""
        with self._blamed(*_DATA, "custom_data_reader"):
            first = self._first(master_pb2.TASK_TRAIN)
            self.sample = self._data.sample(first)

    def build(self, callbacks: list[keras.callbacks.Callback]) -> None:
        """Builds the model, and the training batch with its ids.

        Args:
            callbacks: The module's.
        """
        zoo, model = self.zoo, self.config.model
        with self._blamed("custom_model"):
            built = zoo.custom_model()
        with (
            self._blamed("custom_model", "optimizer", *_DATA),
            _heard(self.reasons),
        ):
            self.prepared = prepare(
                built,
                zoo.loss,
                zoo.optimizer(),
                zoo.eval_metrics_fn,
                sample_batch=self.sample,
                seed=model.seed,
                threshold_bytes=model.embedding_threshold_bytes,
            )
        with self._blamed("callbacks"):
            tables = self.prepared.signature.tables
            check_tables(callbacks, [table.name for table in tables])
        with self._blamed("loss", "eval_metrics_fn"):
            self._steps = Steps(self.prepared)
            self._data.serve(self.prepared, self._steps)
        with self._blamed(*_DATA, "custom_model"):
            self.batch = self._open(master_pb2.TASK_TRAIN)

    def train(self) -> None:
        """Computes the gradients of the training batch.

        Raises:
            ConfigError: The loss or a gradient is not a finite number.
        """
        with self._blamed("loss", "custom_model", *_DATA):
            result = self._steps.train(
                self.batch.data,
                self._rows(self.batch),
                _tensors(self.batch.inverse),
            )
            self.loss = float(result.loss)
            if not math.isfinite(self.loss):
                raise ConfigError(
                    "The loss of the first batch is not a finite number: look "
                    "for missing values, and for the logarithm or the "
                    f"division of 0. Received: loss={self.loss}"
                    f"{_nonfinite(self.batch.data)}"
                )
            if not bool(result.finite):
                raise ConfigError(
                    "A gradient of the first batch is not a finite number, "
                    "though the loss is one. "
                    f"Received: loss={self.loss}{_nonfinite(self.batch.data)}"
                )

    def evaluate(self) -> None:
        """Takes a batch into the evaluation metrics."""
        with self._blamed(*_DATA):
            batch = self._open(master_pb2.TASK_EVALUATE)
        with self._blamed("loss", "eval_metrics_fn", *_DATA):
            self._steps.evaluate(
                batch.data, self._rows(batch), _tensors(batch.inverse)
            )
            self.values = self._steps.evaluation_metrics.result()

    def predict(self) -> None:
        """Computes the model's output on a batch."""
        with self._blamed(*_DATA):
            batch = self._open(master_pb2.TASK_PREDICT)
        with self._blamed("custom_model", *_DATA):
            self.predictions = self._steps.predict(
                batch.data, self._rows(batch), _tensors(batch.inverse)
            )

    def _first(self, kind: master_pb2.TaskKind) -> master_pb2.RecordRange:
        records = _BATCHES * self.config.data.minibatch_size
        return self._data.first(kind, records)

    def _open(self, kind: master_pb2.TaskKind) -> items.Batch:
        source = self._first(kind)
        task = master_pb2.Task(kind=kind, range=source, shuffle_seed=-1)
        batch = next(self._data.open(task).batches(), None)
        if batch is None:
            raise ConfigError(
                f"dataset_fn made no batch of the first {source.count} "
                f"records. Received: {source.source!r}"
            )
        return batch

    def _rows(self, batch: items.Batch) -> list[tf.Tensor]:
        """Returns the initial values of a batch's rows, as shards would."""
        signature = self.prepared.signature
        return [
            tf.convert_to_tensor(
                initial_rows(
                    table.initializer, signature.seed, i, ids.ids, table.dim
                )
            )
            for i, (table, ids) in enumerate(
                zip(signature.tables, batch.ids, strict=True)
            )
        ]

    def _blamed(self, *names: str) -> Any:
        return self._blame.of(names, lambda: self._data.spec)


@contextlib.contextmanager
def _heard(reasons: dict[str, str]) -> Iterator[None]:
    """Takes in what a worker's log says of layers that are left in place."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if isinstance(record.args, tuple) and len(record.args) == 2:
                name, reason = map(str, record.args)
                reasons[name] = reason

    logger = logging.getLogger(swap.__name__)
    handler, level = Handler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def _tensors(places: Any) -> list[tf.Tensor]:
    return [tf.convert_to_tensor(each) for each in places]


def _nonfinite(batch: Any) -> str:
    """Says which features or labels of a batch hold NaN or infinity."""
    parts = unpack(batch)
    found = [
        name
        for part in ("features", "labels", "weights")
        for name, value in named_parts(getattr(parts, part), part)
        if _is_float(value) and not np.isfinite(value.numpy()).all()
    ]
    return f", NaN or infinity in {', '.join(found)}" if found else ""


def _is_float(value: Any) -> bool:
    return isinstance(value, tf.Tensor) and value.dtype.is_floating
