"""Large messages in pieces."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_keras.wire import pieces
from elastic_keras.wire.errors import WireError
from elastic_keras.wire.proto import tensor_pb2

MANY = 1 << 30


def _message(size: int) -> bytes:
    return bytes(i * 7 % 251 for i in range(1024)) * (size // 1024) + bytes(
        size % 1024
    )


def _assemble(raw_pieces, max_bytes=MANY):
    assembler = pieces.Assembler(max_bytes)
    for raw in raw_pieces:
        assembler.add(raw)
    return assembler.method, assembler.message()


@pytest.mark.parametrize(
    ("size", "count"),
    [
        (0, 1),
        (1, 1),
        (pieces.PIECE_BYTES, 1),
        (pieces.PIECE_BYTES + 1, 2),
        (3 * pieces.PIECE_BYTES - 1, 3),
    ],
)
def test_round_trip(size, count):
    data = _message(size)
    cut = list(pieces.cut(data, "Push"))
    assert len(cut) == count
    assert _assemble(cut) == ("Push", data)


def _three() -> list[tensor_pb2.Piece]:
    data = _message(2 * pieces.PIECE_BYTES + 10)
    return [tensor_pb2.Piece.FromString(p) for p in pieces.cut(data, "Push")]


def _assembled(parts):
    return _assemble(part.SerializeToString() for part in parts)


def _without(i):
    parts = _three()
    del parts[i]
    return parts


def _twice(i):
    parts = _three()
    return parts[: i + 1] + parts[i:]


def _empty_one():
    parts = _three()
    return [parts[0], tensor_pb2.Piece(), *parts[1:]]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "0 pieces"),
        (_without(1), "2 pieces"),
        (_without(2), "2 pieces"),
        (_without(0), "the message has 0 bytes"),
        (_twice(0), "only the first names"),
        (_twice(1), "the message has"),
        (_twice(2), "the message has"),
        (_empty_one(), "the last piece of 0"),
    ],
)
def test_missing_and_repeated_pieces(parts, message):
    with pytest.raises(WireError, match=f"{message}.*"):
        _assembled(parts)


@given(data=st.data())
@settings(deadline=None)
def test_any_flipped_bit_of_the_data_is_found(data):
    raw = bytes(range(200))
    piece = tensor_pb2.Piece.FromString(next(pieces.cut(raw, "Push")))
    damaged = bytearray(raw)
    position = data.draw(st.integers(0, len(raw) - 1))
    damaged[position] ^= data.draw(st.integers(1, 255))
    piece.data = bytes(damaged)
    with pytest.raises(WireError, match="piece 0: the checksum"):
        _assembled([piece])


def test_a_size_beyond_the_bound_is_refused_at_once():
    piece = tensor_pb2.Piece(method="Push", total_bytes=1001)
    assembler = pieces.Assembler(1000)
    with pytest.raises(WireError, match="at most 1000 bytes"):
        assembler.add(piece.SerializeToString())


def test_bytes_that_are_no_piece():
    with pytest.raises(WireError, match="not a Piece message"):
        pieces.Assembler(MANY).add(b"\xff\xff\xff")
