"""From a task's records to its batches, by way of the user's dataset_fn."""

import contextlib
import dataclasses
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.data import batching, draws
from elastic_keras.data.broken import broken_records
from elastic_keras.data.reader import Metadata
from elastic_keras.data.records import RecordDataset, record_dataset
from elastic_keras.data.stream import BatchStream

PREDICTION = "prediction"


class BatchPipeline:
    """Makes batches of datasets of raw records, always in the same way.

    A user's `dataset_fn` is traced once, into a function from a dataset of
    records to a dataset of batches: calling it for the next task costs
    milliseconds, where running `dataset_fn` again would cost a trace of each
    function in it, and `batches` needs no new iterator. Tracing also gives a
    shuffle without a seed one that depends only on `seed`, so that the
    batches of a task are a pure function of the task. A `dataset_fn` that
    cannot be traced is run for each task, under the same seed.

    Args:
        dataset_fn: `(dataset, mode, metadata) -> dataset`.
        mode: One of the values of `zoo.modes.Mode`.
        metadata: Goes to `dataset_fn`, with the minibatch size filled in.
        minibatch_size: Examples in a batch, if `dataset_fn` does not batch.
        seed: Of whatever `dataset_fn` draws at random without a seed.
        then: Applied to the dataset of batches, within the trace.
    """

    def __init__(
        self,
        dataset_fn: Callable[..., tf.data.Dataset],
        mode: str,
        metadata: Metadata,
        minibatch_size: int,
        *,
        seed: int = 0,
        then: Callable[[tf.data.Dataset], tf.data.Dataset] | None = None,
    ) -> None:
        self._dataset_fn = dataset_fn
        self._mode = mode
        self._metadata = dataclasses.replace(
            metadata, minibatch_size=minibatch_size
        )
        self._minibatch_size = minibatch_size
        self._seed = seed
        self._then = then
        self._spec: Any = None
        self._traced: Any = None
        # An iterator then goes on with its draws from task to task.
        self._draws = False
        # Lookup tables that dataset_fn made live as long as this.
        self._kept: tf.data.Dataset | None = None
        self._stream: BatchStream | None = None

    def __call__(self, raw: tf.data.Dataset) -> tf.data.Dataset:
        """Returns a task's batches.

        Args:
            raw: The task's records.

        Returns:
            A dataset of `(features, labels, sample_weights)`, the last two
            `None` where `dataset_fn` gives none; or what `then` makes of it.

        Raises:
            ConfigError: `dataset_fn` returned what cannot be trained on.
        """
        source = _source(raw)
        if self._spec != source.element_spec:
            self._spec = source.element_spec
            self._traced = self._trace(raw)
        if self._traced is not None:
            batches = self._traced(source)
        else:
            tf.random.set_seed(self._seed)
            batches = self._build(raw)
        if int(batches.cardinality()) == tf.data.INFINITE_CARDINALITY:
            raise ConfigError(
                "dataset_fn returned a dataset without end; leave repeat() "
                f"out and use --num_epochs. Received: {batches!r}"
            )
        return batches

    def batches(self, raw: tf.data.Dataset, prefetch: int = 2) -> Iterator[Any]:
        """Makes a task's batches; the way for task after task.

        Args:
            raw: The task's records.
            prefetch: Batches made ahead; the first call counts.

        Raises:
            ConfigError: As for a call.
        """
        source = _source(raw)
        if source.element_spec != self._spec:
            self._stream = None
        if self._stream is None:
            dataset = self(raw)
            if not self.traced or self._draws:
                return iter(dataset.prefetch(prefetch))
            self._stream = BatchStream(
                self._traced, self._spec, dataset.element_spec, prefetch
            )
        if self._stream.busy:
            return iter(self(raw).prefetch(prefetch))
        return self._stream.batches(source)

    def broken(
        self, records: Sequence[bytes], *, first_only: bool = False
    ) -> dict[int, str]:
        """Finds the records of which `dataset_fn` cannot make batches.

        Args:
            records: Records in order.
            first_only: Looks no further than the neighbours of the first.

        Returns:
            What is wrong, by the position among `records`.
        """
        self(record_dataset(records))
        return broken_records(
            self._traced or self._of_chunks,
            records,
            traced=self.traced,
            first_only=first_only,
        )

    def _of_chunks(self, chunks: tf.data.Dataset) -> tf.data.Dataset:
        return self(RecordDataset(chunks))

    @property
    def traced(self) -> bool:
        """Whether `dataset_fn` could be traced; known after a call."""
        return self._traced is not None

    def _trace(self, raw: tf.data.Dataset) -> Any:
        """Returns the traced function, or `None` where there can be none."""
        # Functions in the user's dataset go through AutoGraph as they do
        # outside a trace, `dataset_fn` itself does not.
        status = tf.__internal__.autograph.control_status_ctx()

        of_records = isinstance(raw, RecordDataset)

        def build(source: tf.data.Dataset) -> tf.data.Dataset:
            dataset = RecordDataset(source) if of_records else source
            # Sets the seed of this graph alone.
            tf.random.set_seed(self._seed)
            with status:
                self._kept = self._build(dataset)
            return self._kept

        function = tf.function(
            build,
            input_signature=[tf.data.DatasetSpec(_source(raw).element_spec)],
            autograph=False,
        )
        try:
            function.get_concrete_function()
        except ConfigError:
            raise
        except Exception:
            # Running it without a trace shows better what is wrong, or works.
            self._kept = None
            return None
        graph = function.get_concrete_function().graph
        if draws.runs_generator(graph):
            # It may read this very dataset, of which a trace has but a
            # placeholder, or go on where it stood in the task before.
            self._kept = None
            return None
        if draws.draws_in_parallel(graph):
            raise ConfigError(
                "dataset_fn draws random numbers in calls that run in "
                "parallel, so a task would not give the same batches again; "
                "use tf.random.stateless_* there, or leave "
                "num_parallel_calls out"
            )
        self._draws = draws.draws(graph)
        return function

    def _build(self, raw: tf.data.Dataset) -> tf.data.Dataset:
        with _seeded(self._seed):
            made = self._dataset_fn(raw, self._mode, self._metadata)
        if not isinstance(made, tf.data.Dataset):
            raise ConfigError(
                f"dataset_fn must return a tf.data.Dataset. Received: {made!r}"
            )
        batching.check_order(made, raw)
        batches = batching.batched(made, self._minibatch_size, raw)
        batches = batches.map(_unpacker(batches.element_spec, self._mode))
        options = tf.data.Options()
        options.deterministic = True
        batches = batches.with_options(options)
        return batches if self._then is None else self._then(batches)


def _source(raw: tf.data.Dataset) -> tf.data.Dataset:
    """Returns what crosses into the trace for a dataset of records."""
    return raw.chunks if isinstance(raw, RecordDataset) else raw


def _unpacker(spec: Any, mode: str) -> Callable[..., tuple[Any, Any, Any]]:
    """Returns a function that makes triples of a dataset's elements.

    Raises:
        ConfigError: Elements have no labels where they are needed.
    """
    parts = len(spec) if type(spec) is tuple else 1
    if parts > 3:
        raise ConfigError(
            "dataset_fn must give features, (features, labels) or (features, "
            f"labels, sample_weights). Received: a tuple of {parts}"
        )
    if parts == 1 and mode != PREDICTION:
        raise ConfigError(
            "dataset_fn must give (features, labels) for training and "
            f"evaluation. Received: {spec!r}"
        )

    def unpack(*parts: Any) -> tuple[Any, Any, Any]:
        labels = parts[1] if len(parts) > 1 else None
        weights = parts[2] if len(parts) > 2 else None
        if mode == PREDICTION:
            labels = weights = None
        return parts[0], labels, weights

    return unpack


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seeds Python's and NumPy's generators for a while."""
    python, numpy = random.getstate(), np.random.get_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
