"""Records of a journal as bytes: framed, numbered and checksummed.

A record is a header of 32 bytes and a payload, all little-endian:

    magic     4 bytes
    kind      uint32
    sequence  uint64, one more than that of the record before
    size      uint64, bytes of the payload
    payload's CRC32C, header's CRC32C: uint32 each

The payload begins with int64 words (numbers of the record, then the dtype
and shape of each array); the arrays follow, each padded to 8 bytes.
"""

import dataclasses
import enum
import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import google_crc32c
import numpy as np

MAGIC = b"EKJ1"
_HEADER = struct.Struct("<4sIQQI")
_CRC = struct.Struct("<I")
HEADER_BYTES = _HEADER.size + _CRC.size
_ALIGNMENT = 8
_DTYPES = tuple(map(np.dtype, ("<f4", "<f8", "<i8", "u1")))
_MOST_DIMENSIONS = 32


class Kind(enum.IntEnum):
    """What a record tells; numbers stay as they are."""

    BEGIN = 1
    MODEL = 2
    FIRST_VALUES = 3
    MEMBERS = 4
    ORIGIN = 5
    PUSH = 6
    FLUSH = 7
    FINALIZE = 8
    LEARNING_RATE = 9


@dataclasses.dataclass(frozen=True)
class Record:
    """One record.

    Args:
        kind: What it tells.
        sequence: Its number.
        numbers: Numbers, by the kind.
        arrays: float32, float64, int64 or uint8, by the kind.
    """

    kind: Kind
    sequence: int
    numbers: tuple[int, ...]
    arrays: tuple[np.ndarray, ...] = ()


class TornRecordError(ValueError):
    """The file ends inside a record."""


class CorruptRecordError(ValueError):
    """Bytes that are no record."""


def encode(
    kind: Kind,
    sequence: int,
    numbers: Sequence[int],
    arrays: Sequence[np.ndarray] = (),
) -> list[bytes | np.ndarray]:
    """Returns the parts of a record; arrays are not copied.

    Args:
        kind: See `Record`.
        sequence: See `Record`.
        numbers: See `Record`.
        arrays: See `Record`; of any shape.

    Raises:
        ValueError: An array of another dtype.
    """
    words = [len(numbers), *numbers, len(arrays)]
    parts: list[bytes | np.ndarray] = [b"", b""]
    for array in arrays:
        plain = np.ascontiguousarray(array)
        words += [_DTYPES.index(plain.dtype), array.ndim, *array.shape]
        if plain.nbytes:
            parts.append(plain.reshape(-1).view(np.uint8))
            parts.append(bytes(-plain.nbytes % _ALIGNMENT))
    parts[1] = struct.pack(f"<{len(words)}q", *words)
    crc = 0
    for part in parts[1:]:
        crc = google_crc32c.extend(crc, part)
    size = sum(map(len, parts))
    header = _HEADER.pack(MAGIC, kind, sequence, size, crc)
    parts[0] = header + _CRC.pack(google_crc32c.value(header))
    return [part for part in parts if len(part)]


def read(file: BinaryIO) -> Iterator[Record]:
    """Reads records from where a file stands to its end.

    After each record the file stands behind it.

    Args:
        file: The file.

    Raises:
        TornRecordError: The file ends inside a record.
        CorruptRecordError: There is no record where one should be.
    """
    while header := file.read(HEADER_BYTES):
        if len(header) < HEADER_BYTES:
            raise TornRecordError(f"{len(header)} bytes of a header")
        (checksum,) = _CRC.unpack_from(header, _HEADER.size)
        magic, kind, sequence, size, crc = _HEADER.unpack_from(header)
        intact = google_crc32c.value(header[: _HEADER.size]) == checksum
        if not intact or magic != MAGIC:
            raise CorruptRecordError("not the header of a record")
        payload = file.read(size)
        if len(payload) < size:
            raise TornRecordError(f"{len(payload)} of {size} bytes")
        if google_crc32c.value(payload) != crc:
            raise CorruptRecordError(f"the checksum of record {sequence}")
        yield _decode(kind, sequence, payload)


def _decode(kind: int, sequence: int, payload: bytes) -> Record:
    try:
        words = _Words(payload)
        numbers = words.take(words.next())
        shapes = []
        for _ in range(words.next()):
            dtype = _DTYPES[words.next()]
            dimensions = words.next()
            if not 0 <= dimensions <= _MOST_DIMENSIONS:
                raise ValueError(f"{dimensions} dimensions")
            shapes.append((dtype, words.take(dimensions)))
        arrays = []
        place = words.place
        for dtype, shape in shapes:
            count = int(np.prod(shape, dtype=np.int64))
            array = (
                np.frombuffer(payload, dtype, count, place)
                if count
                else (np.empty(0, dtype))
            )
            arrays.append(array.reshape(shape))
            place += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        return Record(Kind(kind), sequence, numbers, tuple(arrays))
    except (ValueError, IndexError, struct.error) as error:
        # Written by another version, say.
        raise CorruptRecordError(f"record {sequence}: {error}") from error


class _Words:
    """Reads the int64 words at the beginning of a payload."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self.place = 0

    def next(self) -> int:
        return self.take(1)[0]

    def take(self, count: int) -> tuple[int, ...]:
        if not 0 <= count <= len(self._payload) // 8:
            raise ValueError(f"{count} numbers")
        words = struct.unpack_from(f"<{count}q", self._payload, self.place)
        self.place += 8 * count
        return words


def text_array(text: str) -> np.ndarray:
    """Returns a text as an array: uint8, (bytes,)."""
    return np.frombuffer(text.encode(), np.uint8)


def array_text(array: np.ndarray) -> str:
    """Returns the text of `text_array`."""
    return array.tobytes().decode()


def float_bits(value: float) -> int:
    """Returns a float64 as the int64 with the same bits."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def bits_float(bits: int) -> float:
    """Returns the float64 of `float_bits`."""
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
