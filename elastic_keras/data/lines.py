"""Text and TSV files: one line a record."""

from collections.abc import Collection, Iterator
from typing import BinaryIO

import numpy as np

from elastic_keras.data.formats import RecordFormat, Records

_NEWLINE = 10
_RETURN = 13


class LineFormat(RecordFormat):
    """Lines end in LF or CR LF; nothing is quoted.

    TSV is read as plain lines: a quote is a character like any other, and a
    value holds neither tabs nor line breaks.

    Args:
        delimiter: What separates columns, or `None` for plain text. With a
            delimiter empty lines are no records.
    """

    def __init__(self, delimiter: bytes | None = None) -> None:
        self.delimiter = delimiter

    def scan(
        self, file: BinaryIO, start: int, chunk_bytes: int
    ) -> Iterator[np.ndarray]:
        """Finds a file's records; see `RecordFormat.scan`."""
        file.seek(start)
        base, rest, final = start, b"", False
        while not final:
            block = file.read(chunk_bytes)
            final = not block
            data = rest + block
            records = self.split(data, final=final)
            if len(records.nexts):
                yield records.nexts + base
            base += records.consumed
            rest = data[records.consumed :]

    def split(self, data: bytes, *, final: bool = True) -> Records:
        """Finds the lines of a piece; see `RecordFormat.split`."""
        array = np.frombuffer(data, np.uint8)
        return self.cut(array, np.flatnonzero(array == _NEWLINE), final)

    def cut(
        self, array: np.ndarray, breaks: np.ndarray, final: bool
    ) -> Records:
        """Makes records of the pieces between line breaks.

        Args:
            array: The bytes, uint8.
            breaks: Positions of the line breaks that end a record.
            final: Nothing follows the piece.
        """
        starts = np.concatenate(([0], breaks + 1)).astype(np.int64)
        if final and starts[-1] < len(array):
            ends = np.append(breaks, len(array))
            nexts = np.append(breaks + 1, len(array))
        else:
            starts, ends, nexts = starts[:-1], breaks, breaks + 1
        consumed = int(nexts[-1]) if len(nexts) else 0
        if len(ends):
            full = ends > starts
            returns = full & (array[np.maximum(ends - 1, 0)] == _RETURN)
            ends = ends - returns
        if self.delimiter is not None:
            keep = ends > starts
            starts, ends, nexts = starts[keep], ends[keep], nexts[keep]
        return Records(starts, ends, nexts, consumed, {})

    def columns(self, data: bytes, records: Records) -> np.ndarray | None:
        """Counts the columns of records; see `RecordFormat.columns`."""
        if self.delimiter is None:
            return None
        array = np.frombuffer(data, np.uint8)
        places = np.flatnonzero(array == self.delimiter[0])
        return count_between(places, records)

    def names(self, payload: bytes) -> list[str]:
        """Returns the column names in a header line."""
        assert self.delimiter is not None
        return payload.decode(errors="replace").split(self.delimiter.decode())


def count_between(places: np.ndarray, records: Records) -> np.ndarray:
    """Counts columns, given the positions of the delimiters.

    Args:
        places: Ascending positions, int64.
        records: Where the records lie.

    Returns:
        int64 of shape `(n,)`.
    """
    before = np.searchsorted(places, records.starts)
    return np.searchsorted(places, records.ends) - before + 1


def usual_columns(counts: np.ndarray | None, but: Collection[int]) -> int:
    """Returns how many columns most records have, the earlier ones if equal.

    Args:
        counts: Columns of each record; `None` if the format has none.
        but: Positions of records that do not count.

    Returns:
        Number of columns, 0 if there are none.
    """
    if counts is None:
        return 0
    counts = np.delete(counts, list(but))
    if not len(counts):
        return 0
    _, first, often = np.unique(counts, return_index=True, return_counts=True)
    return int(counts[first[often == often.max()].min()])
