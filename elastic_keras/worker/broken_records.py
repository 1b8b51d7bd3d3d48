"""Records that dataset_fn cannot parse: said where, or left out."""

import logging
from typing import Any

import tensorflow as tf

from elastic_keras.data.broken import may_be_of_a_record
from elastic_keras.data.errors import BadRecord
from elastic_keras.data.pipeline import BatchPipeline
from elastic_keras.data.reader import DataReader, RecordRange

_LOGGER = logging.getLogger(__name__)
_SHOWN = 10


class BrokenRecords:
    """Finds out what `dataset_fn` failed on, and remembers it.

    What is left out of a range is a function of the range alone, so every
    worker makes the same batches of it.

    Args:
        bad_records: `--bad_records`.
    """

    def __init__(self, bad_records: str) -> None:
        self._bad_records = bad_records
        self._left_out: dict[tuple[str, RecordRange], tuple[int, ...]] = {}

    def known(self, mode: str, source: RecordRange) -> tuple[int, ...]:
        """Returns what is left out of a range, as far as known.

        Args:
            mode: What `dataset_fn` is told.
            source: The range.

        Returns:
            Positions, as for `leave_out` of `DataReader.dataset`.
        """
        return self._left_out.get((mode, source), ())

    def find(
        self,
        error: tf.errors.OpError,
        mode: str,
        source: RecordRange,
        reader: DataReader,
        pipeline: BatchPipeline,
    ) -> bool:
        """Looks for the records on which `dataset_fn` failed.

        Args:
            error: What making batches of the range raised.
            mode: What `dataset_fn` is told.
            source: The range.
            reader: Reads it.
            pipeline: Makes batches of it, by `dataset_fn` alone.

        Returns:
            Whether some were found that are now left out.

        Raises:
            BadRecord: One was found, and none may be left out.
        """
        if not may_be_of_a_record(error) or self.known(mode, source):
            return False
        raw, _ = reader.dataset(source, bad_records=self._bad_records)
        if raw.element_spec != tf.TensorSpec([], tf.string):
            return False
        records = list(raw.as_numpy_iterator())
        skip = self._bad_records == "skip"
        broken = pipeline.broken(records, first_only=not skip)
        if not broken:
            return False
        first = min(broken)
        reason = f"dataset_fn cannot parse it: {broken[first]}"
        if len(broken) > 1 and _are_neighbours(broken):
            reason += f", nor the {len(broken) - 1} after it"
        if not skip:
            raise reader.broken_record(source, first, reason)
        if len(broken) == len(records) > _SHOWN:
            # Rather the code than each single record.
            raise reader.broken_record(source, first, reason)
        self._left_out[mode, source] = tuple(sorted(broken))
        self._log(broken, source, reader)
        return True

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
