"""A worker's view of the job's data: tasks become batches with their ids."""

import dataclasses
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.data import reader as readers
from elastic_keras.data.pipeline import BatchPipeline
from elastic_keras.data.reader import Counts, DataReader, RecordRange
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker import items
from elastic_keras.worker.batches import is_none_spec
from elastic_keras.worker.broken_records import BrokenRecords
from elastic_keras.worker.eager import as_array
from elastic_keras.worker.grouping import group
from elastic_keras.worker.lookup import Lookup
from elastic_keras.worker.model import PreparedModel
from elastic_keras.worker.step import Steps
from elastic_keras.zoo.modes import Mode
from elastic_keras.zoo.module import ZooModule
from elastic_keras.zoo.params import parse_params

# Batches that tf.data makes ahead of the data thread.
_PREFETCH = 2
# Batches that one call into tf.data checks.
_CHECKED = 256


@dataclasses.dataclass(frozen=True)
class _Kind:
    """How tasks of one kind are read.

    Args:
        mode: What `dataset_fn` is told.
        option: The data option that names the files.
        step: The compiled step that takes the batches.
    """

    mode: str
    option: str
    step: str


_KINDS: dict[int, _Kind] = {
    master_pb2.TASK_TRAIN: _Kind(Mode.TRAINING, "training_data", "train"),
    master_pb2.TASK_EVALUATE: _Kind(
        Mode.EVALUATION, "validation_data", "evaluate"
    ),
    master_pb2.TASK_PREDICT: _Kind(
        Mode.PREDICTION, "prediction_data", "predict"
    ),
}


_Elements = Iterable[tuple[Any, tuple[tf.Tensor, ...]]]


class TaskBatches:
    """One task's batches.

    Args:
        elements: Pairs (batch, ids), as of `Lookup.map`.
        counts: What was read of the range.
        num_shards: Number of shards.
        explain: Called with what a kernel raised; raises where it knows
            better what is wrong.
    """

    def __init__(
        self,
        elements: _Elements,
        counts: Counts,
        num_shards: int,
        explain: Callable[[tf.errors.OpError], None] = lambda error: None,
    ) -> None:
        self._elements = elements
        self._counts = counts
        self._num_shards = num_shards
        self._explain = explain

    def batches(self) -> Generator[items.Batch, None, None]:
        """Makes the batches."""
        try:
            for data, ids in self._elements:
                yield self._batch(data, ids)
        except tf.errors.OpError as error:
            # Nothing is left out at this point: batches were handed on.
            self._explain(error)
            raise

    def report(self) -> master_pb2.ReportTaskRequest:
        """Returns a report that counts the records."""
        return master_pb2.ReportTaskRequest(
            records=self._counts.records,
            bad_records=self._counts.bad_records,
        )

    def _batch(self, data: Any, ids: tuple[tf.Tensor, ...]) -> items.Batch:
        groups, inverse = [], []
        for table_ids in ids:
            grouped, places = group(as_array(table_ids), self._num_shards)
            groups.append(grouped)
            inverse.append(tf.constant(places))
        return items.Batch(data, groups, inverse, count_examples(data))


class JobData:
    """Opens tasks' data for the steps of one model.

    Args:
        config: The job.
        zoo: The model-zoo module.
        num_shards: Number of shards.
    """

    def __init__(
        self, config: JobConfig, zoo: ZooModule, num_shards: int
    ) -> None:
        self._config = config
        self._zoo = zoo
        self._num_shards = num_shards
        self._readers: dict[str, DataReader] = {}
        self._pipelines: dict[int, BatchPipeline] = {}
        self._checks: dict[str, BatchPipeline] = {}
        self._prepared: PreparedModel | None = None
        # Spec of the batches opened last, for messages.
        self.spec: Any = None
        self._steps: Steps | None = None
        self._broken = BrokenRecords(config.data.bad_records)

    def sample(self, message: master_pb2.RecordRange) -> Any:
        """Returns the first batch there is, to build a model on.

        Args:
            message: The range to look at first; empty to find one here.

        Raises:
            ConfigError: There are no data, or they give no batch.
        """
        kind = next(
            (
                kind
                for kind in _KINDS.values()
                if getattr(self._config.data, kind.option)
            ),
            None,
        )
        if kind is None:
            raise ConfigError("The job has no data.")
        pipeline = self._pipeline(kind)
        for source in self._ranges(kind, _range(message)):
            first = self._first_batch(kind, source, pipeline)
            if first is not None:
                return first
        raise ConfigError(
            "dataset_fn made no batch of any record. Received: "
            f"{kind.option}={getattr(self._config.data, kind.option)!r}"
        )

    def first(
        self, task_kind: master_pb2.TaskKind, records: int
    ) -> master_pb2.RecordRange:
        """Returns the range that the data of a kind of task begin with.

        Args:
            task_kind: Training, evaluation or prediction.
            records: Most records that it may hold.

        Raises:
            ConfigError: There are no records.
        """
        found = self._reader(_KINDS[task_kind]).first_range(records)
        return master_pb2.RecordRange(**dataclasses.asdict(found))

    def _first_batch(
        self, kind: _Kind, source: RecordRange, pipeline: BatchPipeline
    ) -> Any:
        raw, _ = self._read(kind, source, -1)
        batches = _trim(pipeline(raw))
        self.spec = batches.element_spec
        try:
            return next(iter(batches.take(1)), None)
        except tf.errors.OpError as error:
            self._explain(error, kind, source)
            raise

    def _explain(
        self, error: tf.errors.OpError, kind: _Kind, source: RecordRange
    ) -> None:
        """Says which record is to blame for an error.

        Raises:
            BadRecord: One is, and records may not be left out.
        """
        if self._config.data.bad_records == "fail":
            self._broken.find(
                error,
                kind.mode,
                source,
                self._reader(kind),
                self._check(kind),
            )

    def _ranges(self, kind: _Kind, first: RecordRange) -> Iterator[RecordRange]:
        """Gives the first range, if there is one, then all there are."""
        if first.source:
            yield first
        # A filter in dataset_fn may leave nothing of the first range.
        yield from self._reader(kind).ranges(self._records_per_task())

    def serve(self, prepared: PreparedModel, steps: Steps) -> None:
        """Names the model that batches are made for."""
        self._prepared = prepared
        self._steps = steps

    def open(self, task: master_pb2.Task) -> TaskBatches:
        """Opens a task's data.

        Args:
            task: A training, evaluation or prediction task.

        Raises:
            ConfigError: The data or what `dataset_fn` made of them cannot
                be used.
        """
        kind = _KINDS[task.kind]
        source = _range(task.range)
        raw, counts = self._read(kind, source, task.shuffle_seed)
        if task.kind not in self._pipelines:
            self._pipelines[task.kind] = self._pipeline_with_ids(kind, raw)
        elements = self._pipelines[task.kind].batches(raw, _PREFETCH)

        return TaskBatches(
            elements,
            counts,
            self._num_shards,
            lambda error: self._explain(error, kind, source),
        )

    def _pipeline_with_ids(
        self, kind: _Kind, raw: tf.data.Dataset
    ) -> BatchPipeline:
        if self._prepared is None or self._steps is None:
            raise RuntimeError("There is no model yet.")
        self.spec = spec = _trim(self._pipeline(kind)(raw)).element_spec
        self._steps.expect(kind.step, spec)
        lookup = Lookup(self._prepared, spec, training=kind.step == "train")
        return self._pipeline(
            kind, then=lambda dataset: lookup.map(_trim(dataset))
        )

    def _pipeline(self, kind: _Kind, then: Any = None) -> BatchPipeline:
        return BatchPipeline(
            self._zoo.dataset_fn,
            kind.mode,
            self._reader(kind).metadata,
            self._config.data.minibatch_size,
            seed=self._config.model.seed,
            then=then,
        )

    def _check(self, kind: _Kind) -> BatchPipeline:
        """Returns what makes batches only to see whether that works."""
        if kind.option not in self._checks:
            self._checks[kind.option] = self._pipeline(kind, then=_without_data)
        return self._checks[kind.option]

    def _reader(self, kind: _Kind) -> DataReader:
        if kind.option not in self._readers:
            self._readers[kind.option] = readers.open_reader(
                getattr(self._config.data, kind.option),
                self._config.data,
                custom=self._zoo.custom_data_reader,
                custom_params=parse_params(
                    self._config.data.data_reader_params
                ),
            )
        return self._readers[kind.option]

    def _read(
        self, kind: _Kind, source: RecordRange, seed: int
    ) -> tuple[tf.data.Dataset, Counts]:
        return self._broken.read(
            kind.mode,
            source,
            self._reader(kind),
            self._check(kind),
            None if seed < 0 else seed,
        )

    def _records_per_task(self) -> int:
        data = self._config.data
        return data.records_per_task or data.minibatch_size


def _trim(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Leaves out the labels and weights that a dataset does not have."""
    spec = dataset.element_spec
    parts = sum(not is_none_spec(part) for part in spec)
    if parts == len(spec):
        return dataset
    return dataset.map(lambda *batch: batch[:parts])


def _without_data(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Makes all batches but hands nothing of them to Python."""
    return batches.map(lambda *_: True).batch(_CHECKED)


def count_examples(batch: Any) -> int:
    """Returns the number of examples in a batch of eager tensors."""
    first = tf.nest.flatten(batch)[0]
    if isinstance(first, tf.RaggedTensor):
        return int(first.nrows())
    if isinstance(first, tf.SparseTensor):
        return int(first.dense_shape[0])
    return int(np.shape(first)[0])


def _range(message: master_pb2.RecordRange) -> RecordRange:
    return RecordRange(
        message.source,
        message.start,
        message.count,
        message.byte_start,
        message.byte_end,
    )
