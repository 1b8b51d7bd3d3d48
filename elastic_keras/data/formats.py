"""What a file format must tell a reader."""

import abc
import dataclasses
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np


@dataclasses.dataclass(frozen=True)
class Records:
    """Where records lie in a piece of a file.

    Args:
        starts: First byte of each record's payload, int64 `(n,)`.
        ends: Byte after each payload, int64 `(n,)`.
        nexts: Byte at which whatever follows each record begins, `(n,)`.
        consumed: Bytes of the piece that need not be looked at again.
        broken: What is wrong with a record, by its position in the arrays.
    """

    starts: np.ndarray
    ends: np.ndarray
    nexts: np.ndarray
    consumed: int
    broken: dict[int, str]


class RecordFormat(abc.ABC):
    """Finds records in bytes."""

    @abc.abstractmethod
    def scan(
        self, file: BinaryIO, start: int, chunk_bytes: int
    ) -> Iterator[np.ndarray]:
        """Finds a file's records without keeping the file in memory.

        Args:
            file: An open file.
            start: Byte at which the first record may begin.
            chunk_bytes: How much to read at a time.

        Yields:
            Positions in the file after each of the next records, int64.
        """

    @abc.abstractmethod
    def split(self, data: bytes, *, final: bool = True) -> Records:
        """Finds the records of a piece of a file.

        Args:
            data: Bytes that begin at the beginning of a record.
            final: Nothing follows the piece; otherwise a last record that
                is not complete is left out of the result.
        """

    def columns(self, data: bytes, records: Records) -> np.ndarray | None:
        """Counts the columns of records.

        Args:
            data: The bytes that were split.
            records: What `split` found.

        Returns:
            int64 of shape `(n,)`, or `None` if the format has no columns.
        """
        return None

    def names(self, payload: bytes) -> list[str]:
        """Returns the column names in a header record."""
        raise TypeError(f"{type(self).__name__} has no header")


def make_records(
    starts: list[int],
    ends: list[int],
    nexts: list[int],
    consumed: int,
    broken: dict[int, str],
) -> Records:
    """Makes `Records` of lists."""
    return Records(
        np.array(starts, np.int64),
        np.array(ends, np.int64),
        np.array(nexts, np.int64),
        consumed,
        broken,
    )
