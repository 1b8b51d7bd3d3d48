"""Reads records from local files."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from elastic_keras.config import ConfigError
from elastic_keras.data import shuffle, sources
from elastic_keras.data.csv import CsvFormat
from elastic_keras.data.errors import BadRecord, DataError, SourceChanged
from elastic_keras.data.formats import RecordFormat, Records
from elastic_keras.data.lines import LineFormat, usual_columns
from elastic_keras.data.reader import (
    Counts,
    DataReader,
    Metadata,
    RecordRange,
)
from elastic_keras.data.tfrecord import TfRecordFormat

if TYPE_CHECKING:
    import tensorflow as tf

CHUNK_BYTES = 4 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SHOWN_BAD_RECORDS = 10
_log = logging.getLogger(__name__)


class FileReader(DataReader):
    """Reads text, CSV, TSV and TFRecord files.

    Args:
        paths: The files, in order.
        data_format: `auto`, `csv`, `tsv`, `text` or `tfrecord`.
        csv_header: The first record of a CSV or TSV file names the columns.
        chunk_bytes: How much of a file a scan holds in memory.

    Raises:
        ConfigError: A file cannot be read, or no header where one must be.
    """

    def __init__(
        self,
        paths: list[str],
        data_format: str = "auto",
        csv_header: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
    ) -> None:
        kinds = {path: sources.format_of(path, data_format) for path in paths}
        if len(set(kinds.values())) > 1:
            raise ConfigError(
                "All files of a flag must have one format. Received: "
                + ", ".join(f"{p} ({k})" for p, k in kinds.items())
            )
        self._kind = next(iter(kinds.values()))
        if csv_header and self._kind not in ("csv", "tsv"):
            raise ConfigError(
                "--csv_header goes with CSV and TSV files. "
                f"Received: {paths[0]!r}, read as {self._kind}"
            )
        self._header = csv_header
        self._chunk_bytes = chunk_bytes
        self._format = _make_format(self._kind)
        self._stamps = {path: _stamp(path) for path in paths}
        # An empty file is no file without header: a writer had no records.
        self._paths = [p for p in paths if os.path.getsize(p)] or paths
        _, self._names, self._columns, self._usual = self._beginning(
            self._paths[0]
        )

    @property
    def metadata(self) -> Metadata:
        """The column names, if there is a header."""
        return Metadata(column_names=self._names)

    def ranges(self, records_per_task: int) -> list[RecordRange]:
        """Cuts the files into ranges; see `DataReader.ranges`."""
        if records_per_task < 1:
            raise ConfigError(
                "A task holds at least one record. "
                f"Received: records_per_task={records_per_task}"
            )
        ranges = list(self._ranges(records_per_task))
        if not ranges:
            raise self._empty()
        return ranges

    def first_range(self, records: int) -> RecordRange:
        """Reads no further than it must; see `DataReader.first_range`."""
        found = next(iter(self._ranges(records)), None)
        if found is None:
            raise self._empty()
        return found

    def records(self, record_range: RecordRange) -> Iterable[bytes]:
        """Returns a range's good records, in order."""
        payloads, _ = self._read(record_range, None, "fail")
        return payloads.tolist()

    def dataset(
        self,
        record_range: RecordRange,
        *,
        shuffle_seed: int | None = None,
        bad_records: str = "fail",
        leave_out: Collection[int] = (),
    ) -> tuple[tf.data.Dataset, Counts]:
        """Returns a range's records; see `DataReader.dataset`."""
        from elastic_keras.data.records import record_dataset

        payloads, counts = self._read(
            record_range, shuffle_seed, bad_records, leave_out
        )
        return record_dataset(payloads), counts

    def broken_record(
        self, record_range: RecordRange, position: int, reason: str
    ) -> BadRecord:
        """Says where a record is; see `DataReader.broken_record`."""
        data = self._bytes(record_range)
        records = self._format.split(data)
        good = np.delete(
            np.arange(len(records.starts)), list(self._broken(data, records))
        )
        index = int(good[position])
        record = record_range.start + index
        may_be_header = self._kind in ("csv", "tsv") and not self._header
        if record == 0 and may_be_header:
            reason += " (if it names the columns, say --csv_header)"
        return BadRecord(
            record_range.source,
            record,
            record_range.byte_start + _place(records, index),
            reason,
        )

    def _ranges(self, size: int) -> Iterable[RecordRange]:
        for path in self._paths:
            yield from self._file_ranges(path, size)

    def _empty(self) -> DataError:
        return DataError(
            f"The data hold no records. Received: {', '.join(self._paths)}"
        )

    def _file_ranges(self, path: str, size: int) -> Iterable[RecordRange]:
        begin, names, _, _ = self._beginning(path)
        if names != self._names:
            raise DataError(
                f"Headers differ. Received: {names} in {path!r}, "
                f"{self._names} in {self._paths[0]!r}"
            )
        done, start = 0, 0
        with open(path, "rb") as file:
            scan = self._format.scan(file, begin, self._chunk_bytes)
            last = begin
            for nexts in scan:
                # Positions in `nexts` after which a range is full.
                full = np.arange(start + size - done - 1, len(nexts), size)
                for end in nexts[full].tolist():
                    yield RecordRange(path, start, size, begin, end)
                    start, begin = start + size, end
                done += len(nexts)
                last = int(nexts[-1])
        if done > start:
            yield RecordRange(path, start, done - start, begin, last)

    def _beginning(self, path: str) -> tuple[int, list[str] | None, int, int]:
        """Looks at a file's first chunk.

        Returns:
            Where records begin, the header, the number of columns that a
            record must have, and that which most records have.
        """
        if isinstance(self._format, TfRecordFormat):
            return 0, None, 0, 0
        size = self._chunk_bytes
        while True:
            with _open(path) as file:
                data = file.read(size)
            mark = 3 if data.startswith(_BYTE_ORDER_MARK) else 0
            final = len(data) < size
            records = self._format.split(data[mark:], final=final)
            if len(records.starts) or final:
                break
            size *= 2
        data = data[mark:]
        counts = self._format.columns(data, records)
        if not len(records.starts):
            if self._header:
                raise DataError(f"A file without header. Received: {path!r}")
            return mark, None, 0, 0
        # The first record may be a broken one like any other.
        usual = usual_columns(counts, records.broken)
        if not self._header:
            return mark, None, usual, usual
        if 0 in records.broken:
            raise BadRecord(path, 0, mark, records.broken[0])
        start, end = int(records.starts[0]), int(records.ends[0])
        names = self._format.names(data[start:end])
        begin = mark + int(records.nexts[0])
        columns = 0 if counts is None else int(counts[0])
        return begin, names, columns, usual

    def _read(
        self,
        record_range: RecordRange,
        seed: int | None,
        bad_records: str,
        leave_out: Collection[int] = (),
    ) -> tuple[np.ndarray, Counts]:
        data = self._bytes(record_range)
        records = self._format.split(data)
        if len(records.starts) != record_range.count:
            raise _changed(record_range.source)
        if bad_records == "skip" and self._usual != self._columns:
            raise DataError(
                "--bad_records=skip would leave most records out: the header "
                f"names {self._columns} columns, most records have "
                f"{self._usual}. Received: {self._paths[0]!r}"
            )
        broken = self._broken(data, records)
        chosen = np.arange(len(records.starts))
        if broken:
            _complain(record_range, records, broken, bad_records)
            chosen = np.delete(chosen, list(broken))
        order = shuffle.kept(len(chosen), seed, leave_out)
        payloads = _payloads(data, records)[chosen[order]]
        return payloads, Counts(len(payloads), len(broken) + len(leave_out))

    def _broken(self, data: bytes, records: Records) -> dict[int, str]:
        broken = dict(records.broken)
        counts = self._format.columns(data, records)
        if counts is None:
            return broken
        place = "the header" if self._header else "most of the first records"
        for i in np.flatnonzero(counts != self._columns).tolist():
            broken.setdefault(
                i,
                f"{counts[i]} columns, not {self._columns} as in {place} of "
                f"{self._paths[0]}",
            )
        return dict(sorted(broken.items()))

    def _bytes(self, record_range: RecordRange) -> bytes:
        path = record_range.source
        if path not in self._stamps:
            raise DataError(
                f"A range of a file that the data flags do not name. "
                f"Received: {path!r}"
            )
        size = record_range.byte_end - record_range.byte_start
        with _open(path) as file:
            if _stamp(path) != self._stamps[path]:
                raise _changed(path)
            file.seek(record_range.byte_start)
            data = file.read(size)
        if len(data) != size:
            raise _changed(path)
        return data


def _make_format(kind: str) -> RecordFormat:
    if kind == "csv":
        return CsvFormat()
    if kind == "tsv":
        return LineFormat(b"\t")
    if kind == "text":
        return LineFormat()
    return TfRecordFormat()


def _payloads(data: bytes, records: Records) -> np.ndarray:
    """Returns the records' payloads, `bytes` objects of shape `(n,)`."""
    starts, ends, nexts = records.starts, records.ends, records.nexts
    payloads = np.empty(len(starts), object)
    lines: list[bytes] = []
    if (nexts == ends + 1).all() and (starts[1:] == nexts[:-1]).all():
        lines = data.split(b"\n")
    if len(lines) == len(starts) + 1 and starts[0] == 0 and not lines[-1]:
        # Plain lines: several times faster than a slice for each.
        payloads[:] = lines[:-1]
    else:
        places = zip(starts.tolist(), ends.tolist(), strict=True)
        payloads[:] = [data[start:end] for start, end in places]
    return payloads


def _open(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise DataError(
            f"Cannot read data: {error.strerror}. Received: {path!r}"
        ) from error


def _stamp(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError as error:
        raise DataError(
            f"Cannot read data: {error.strerror}. Received: {path!r}"
        ) from error
    return status.st_size, status.st_mtime_ns


def _changed(path: str) -> SourceChanged:
    return SourceChanged(
        "A file changed while the job runs; start a new job for the new "
        f"data. Received: {path!r}"
    )


def _place(records: Records, index: int) -> int:
    """Returns the byte of the piece at which a record starts."""
    # A broken TFRecord has no payload; it starts where the one before it
    # ends.
    return int(records.nexts[index - 1]) if index else 0


def _complain(
    record_range: RecordRange,
    records: Records,
    broken: dict[int, str],
    bad_records: str,
) -> None:
    """Raises or logs broken records."""
    for shown, (i, reason) in enumerate(broken.items()):
        error = BadRecord(
            record_range.source,
            record_range.start + i,
            record_range.byte_start + _place(records, i),
            reason,
        )
        if bad_records == "fail":
            raise error
        if shown == _SHOWN_BAD_RECORDS:
            break
        _log.warning(
            "Skipped: %s (%s, record %d, byte %d)",
            reason,
            error.source,
            error.record,
            error.position,
        )
    if len(broken) > _SHOWN_BAD_RECORDS:
        _log.warning(
            "Skipped %d more broken records of this task",
            len(broken) - _SHOWN_BAD_RECORDS,
        )
