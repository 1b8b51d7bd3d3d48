"""TFRecord files: length, its checksum, payload, its checksum."""

import struct
from collections.abc import Iterator
from typing import BinaryIO

import google_crc32c
import numpy as np

from elastic_keras.data.formats import (
    RecordFormat,
    Records,
    make_records,
)

_HEAD = struct.Struct("<QI")
_TAIL = struct.Struct("<I")


def masked(crc: int) -> int:
    """Returns a CRC32C in the masked form that TFRecord files hold."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


class TfRecordFormat(RecordFormat):
    """Reads TFRecord files.

    A wrong payload checksum breaks one record. A wrong length or a cut-off
    end leaves no way to find the next record: the rest of the file then
    counts as one broken record.
    """

    def scan(
        self, file: BinaryIO, start: int, chunk_bytes: int
    ) -> Iterator[np.ndarray]:
        """Hops from length to length; see `RecordFormat.scan`."""
        size = file.seek(0, 2)
        position = start
        while position < size:
            file.seek(position)
            data = file.read(chunk_bytes)
            nexts, offset = [], 0
            while offset + _HEAD.size <= len(data):
                length = _length(data, offset)
                if length < 0 or position + offset + 16 + length > size:
                    offset = size - position
                else:
                    offset += 16 + length
                nexts.append(offset)
            if not nexts:  # The file ends within a head.
                offset = size - position
                nexts.append(offset)
            yield np.array(nexts, np.int64) + position
            position += offset

    def split(self, data: bytes, *, final: bool = True) -> Records:
        """Checks and cuts a piece; see `RecordFormat.split`."""
        starts: list[int] = []
        ends: list[int] = []
        nexts: list[int] = []
        broken: dict[int, str] = {}
        position, size = 0, len(data)
        value = google_crc32c.value
        while position < size:
            reason = ""
            start = end = after = size
            length = _length(data, position)
            if position + _HEAD.size > size:
                reason = "the file ends within a record's head"
            elif length < 0:
                reason = "a wrong checksum of a record's length"
            elif position + 16 + length > size:
                reason = "the file ends within a record"
            else:
                start = position + _HEAD.size
                end = start + length
                after = end + _TAIL.size
                (stored,) = _TAIL.unpack_from(data, end)
                if stored != masked(value(data[start:end])):
                    reason = "a wrong checksum of a record's payload"
            if reason and after == size and not final:
                break
            if reason:
                broken[len(starts)] = reason
            starts.append(start)
            ends.append(end)
            nexts.append(after)
            position = after
        return make_records(starts, ends, nexts, position, broken)


def _length(data: bytes, offset: int) -> int:
    """Returns a record's length, or -1 where its checksum is wrong."""
    if offset + _HEAD.size > len(data):
        return -1
    length, stored = _HEAD.unpack_from(data, offset)
    crc = google_crc32c.value(data[offset : offset + 8])
    return length if masked(crc) == stored else -1
