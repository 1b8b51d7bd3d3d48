"""What the master and the workers know of input data.

The master asks a reader for ranges of records, a worker for the records of
a range. Nothing here imports TensorFlow before `dataset` is called, so that
the master runs without it.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from elastic_keras.config import ConfigError, DataOptions
from elastic_keras.data import shuffle
from elastic_keras.data.errors import BadRecord

if TYPE_CHECKING:
    import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class RecordRange:
    """Records [start, start + count) of a source.

    Args:
        source: A file's path, or a name that a custom reader understands.
        start: Number of the first record, from 0, a header not counted.
        count: Number of records.
        byte_start: Where the range begins in the file; -1 for no file.
        byte_end: The byte after its end; -1 for no file.
    """

    source: str
    start: int
    count: int
    byte_start: int = -1
    byte_end: int = -1


@dataclasses.dataclass(frozen=True)
class Metadata:
    """What `dataset_fn` gets as its third argument.

    Args:
        column_names: Names in the header of CSV or TSV files, or `None`.
        minibatch_size: The flag, for a `dataset_fn` that batches itself.
    """

    column_names: list[str] | None = None
    minibatch_size: int = 64


@dataclasses.dataclass
class Counts:
    """What was read of a range.

    Args:
        records: Good records.
        bad_records: Broken records that were left out.
    """

    records: int = 0
    bad_records: int = 0


class DataReader(abc.ABC):
    """Reads records from somewhere.

    A custom reader implements `ranges` and `records`.
    """

    @property
    def metadata(self) -> Metadata:
        """What `dataset_fn` is told about the data."""
        return Metadata()

    @abc.abstractmethod
    def ranges(self, records_per_task: int) -> list[RecordRange]:
        """Cuts the data into ranges, each record in exactly one.

        Args:
            records_per_task: Most records that a range may hold.

        Raises:
            ConfigError: There are no records.
        """

    def first_range(self, records: int) -> RecordRange:
        """Returns the range that the data begin with, for a look at them.

        Args:
            records: Most records that it may hold.

        Raises:
            ConfigError: There are no records.
        """
        ranges = self.ranges(records)
        if not ranges:
            raise ConfigError(
                "The data hold no records: a reader's ranges() gave none. "
                f"Received: {type(self).__name__}"
            )
        return ranges[0]

    @abc.abstractmethod
    def records(self, record_range: RecordRange) -> Iterable[bytes | str]:
        """Returns the records of a range, in order.

        Args:
            record_range: One that `ranges` made.
        """

    def dataset(
        self,
        record_range: RecordRange,
        *,
        shuffle_seed: int | None = None,
        bad_records: str = "fail",
        leave_out: Collection[int] = (),
    ) -> tuple[tf.data.Dataset, Counts]:
        """Returns a range's records as a dataset of scalar strings.

        Their order is a function of the range and the seed alone: what is
        left out leaves a gap and does not change the order of the rest.

        Args:
            record_range: One that `ranges` made.
            shuffle_seed: Seed of the order; `None` keeps the file's.
            bad_records: `fail` or `skip`.
            leave_out: Further records to skip, by their position among the
                good ones in the order of the file.

        Returns:
            The dataset and what was read; both complete on return.

        Raises:
            DataError: A broken record with `fail`, or a changed source.
        """
        from elastic_keras.data.records import record_dataset

        records = list(self.records(record_range))
        order = shuffle.kept(len(records), shuffle_seed, leave_out)
        records = [records[i] for i in order.tolist()]
        return record_dataset(records), Counts(len(records), len(leave_out))

    def broken_record(
        self, record_range: RecordRange, position: int, reason: str
    ) -> BadRecord:
        """Returns an error that says where a record is.

        Args:
            record_range: One that `ranges` made.
            position: The record's, as for `leave_out` of `dataset`.
            reason: What is wrong with it.
        """
        record = record_range.start + position
        return BadRecord(record_range.source, record, None, reason)


def open_reader(
    data: str,
    options: DataOptions,
    *,
    custom: Callable[..., DataReader] | None = None,
    custom_params: dict[str, Any] | None = None,
) -> DataReader:
    """Opens data for reading.

    Args:
        data: Files or globs, separated by commas; for a custom reader
            whatever it understands.
        options: Format, header and `records_per_task`.
        custom: A zoo module's `custom_data_reader`.
        custom_params: Further arguments for it.

    Raises:
        ConfigError: There is no such file, or no reader for it.
    """
    if custom is None:
        from elastic_keras.data import file_reader, sources

        return file_reader.FileReader(
            sources.expand(data), options.data_format, options.csv_header
        )
    reader = custom(data, options.records_per_task, **(custom_params or {}))
    if not isinstance(reader, DataReader):
        raise ConfigError(
            "custom_data_reader must return an elastic_keras DataReader. "
            f"Received: {reader!r}"
        )
    return reader
