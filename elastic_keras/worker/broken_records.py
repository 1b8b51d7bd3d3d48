"""Records that dataset_fn cannot parse: said where, or left out."""

import logging
from typing import Any

import tensorflow as tf

from elastic_keras.data.broken import may_be_of_a_record
from elastic_keras.data.errors import BadRecord
from elastic_keras.data.pipeline import BatchPipeline
from elastic_keras.data.reader import Counts, DataReader, RecordRange

_LOGGER = logging.getLogger(__name__)
_SHOWN = 10


class BrokenRecords:
    """Leaves out what `dataset_fn` cannot parse, or says where it is.

    What is left out must be known before the first batch is made: a
    `dataset_fn` that shuffles or batches before it parses fails on a record
    only after batches that depend on that record were handed on, and whoever
    takes the task over would make other ones. So with `skip` a task's batches
    are made twice, and nothing found in an earlier task decides what a task
    consists of: its batches are a function of the task alone.

    Args:
        bad_records: `--bad_records`.
    """

    def __init__(self, bad_records: str) -> None:
        self._bad_records = bad_records
        self._found: dict[tuple[str, RecordRange], tuple[int, ...]] = {}

    def read(
        self,
        mode: str,
        source: RecordRange,
        reader: DataReader,
        pipeline: BatchPipeline,
        seed: int | None,
    ) -> tuple[tf.data.Dataset, Counts]:
        """Reads a task's records, with `skip` those that can be parsed.

        Args:
            mode: What `dataset_fn` is told.
            source: The task's range.
            reader: Reads it.
            pipeline: Makes batches of it, by `dataset_fn` alone.
            seed: Of the order; `None` keeps the file's.

        Returns:
            What `DataReader.dataset` does.

        Raises:
            BadRecord: A broken record that may not be left out.
            tf.errors.OpError: `dataset_fn` failed and no record is to blame.
        """
        raw, counts = reader.dataset(
            source, shuffle_seed=seed, bad_records=self._bad_records
        )
        if self._bad_records != "skip":
            return raw, counts
        try:
            for _ in pipeline.batches(raw):
                pass
        except tf.errors.OpError as error:
            left_out = self.find(error, mode, source, reader, pipeline)
            if not left_out:
                raise
            return reader.dataset(
                source,
                shuffle_seed=seed,
                bad_records=self._bad_records,
                leave_out=left_out,
            )
        return raw, counts

    def find(
        self,
        error: tf.errors.OpError,
        mode: str,
        source: RecordRange,
        reader: DataReader,
        pipeline: BatchPipeline,
    ) -> tuple[int, ...]:
        """Looks for the records on which `dataset_fn` failed.

        Each record is tried on its own, so the result depends on the range
        alone.

        Args:
            error: What making batches of the range raised.
            mode: What `dataset_fn` is told.
            source: The range.
            reader: Reads it.
            pipeline: Makes batches of it, by `dataset_fn` alone.

        Returns:
            Positions, as for `leave_out` of `DataReader.dataset`; none if no
            record is to blame.

        Raises:
            BadRecord: One was found, and none may be left out.
        """
        if not may_be_of_a_record(error):
            return ()
        # Records are looked at one by one: not again in every epoch.
        if (mode, source) in self._found:
            return self._found[mode, source]
        raw, _ = reader.dataset(source, bad_records=self._bad_records)
        if raw.element_spec != tf.TensorSpec([], tf.string):
            return ()
        records = list(raw.as_numpy_iterator())
        skip = self._bad_records == "skip"
        broken = pipeline.broken(records, first_only=not skip)
        if not broken:
            return ()
        first = min(broken)
        reason = f"dataset_fn cannot parse it: {broken[first]}"
        if len(broken) > 1 and _are_neighbours(broken):
            reason += f", nor the {len(broken) - 1} after it"
        if not skip:
            raise reader.broken_record(source, first, reason)
        if len(broken) == len(records) > _SHOWN:
            # Rather the code than each single record.
            raise reader.broken_record(source, first, reason)
        self._log(broken, source, reader)
        left_out = tuple(sorted(broken))
        self._found[mode, source] = left_out
        return left_out

    def _log(
        self, broken: dict[int, str], source: RecordRange, reader: DataReader
    ) -> None:
        for position in sorted(broken)[:_SHOWN]:
            error = reader.broken_record(source, position, broken[position])
            _LOGGER.warning("Skipped: %s (%s)", error.reason, place(error))
        if len(broken) > _SHOWN:
            _LOGGER.warning(
                "Skipped %d more broken records of this task",
                len(broken) - _SHOWN,
            )


def place(error: BadRecord) -> str:
    """Returns where a broken record is."""
    byte = "" if error.position is None else f", byte {error.position}"
    return f"{error.source}, record {error.record}{byte}"


def _are_neighbours(broken: dict[int, Any]) -> bool:
    return max(broken) - min(broken) == len(broken) - 1
