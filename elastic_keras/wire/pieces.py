"""Large messages in pieces, as the `Exchange` methods carry them."""

from collections.abc import Iterator

from google.protobuf.message import DecodeError

from elastic_keras.wire import checksums
from elastic_keras.wire.errors import WireError
from elastic_keras.wire.proto import tensor_pb2

# Measured with 1, 2 and 4 MiB: 1 MiB is the fastest for 32 MiB, and pieces
# beat one message from about 16 MiB on; below, their own cost is larger.
PIECE_BYTES = 1 << 20
# A serialised message larger than this travels in pieces.
LARGE_BYTES = 16 << 20


def cut(data: bytes, method: str) -> Iterator[bytes]:
    """Cuts a serialised message into serialised pieces.

    Args:
        data: The message; may be empty.
        method: Name of the method it belongs to.

    Yields:
        `Piece` messages as bytes, at least one.
    """
    for start in range(0, max(len(data), 1), PIECE_BYTES):
        part = data[start : start + PIECE_BYTES]
        piece = tensor_pb2.Piece(data=part, crc32c=checksums.crc32c(part))
        if start == 0:
            piece.method = method
            piece.total_bytes = len(data)
        yield piece.SerializeToString()


class Assembler:
    """Puts the pieces of one message together.

    Memory is taken for what has arrived, never for what was announced.

    Args:
        max_bytes: Largest message accepted.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._parts: list[bytes] = []
        self._received = 0
        self._total = -1
        self.method = ""

    def add(self, raw: bytes) -> None:
        """Takes the next piece.

        Args:
            raw: A serialised `Piece`.

        Raises:
            WireError: It is damaged, or too large, or one too many.
        """
        try:
            piece = tensor_pb2.Piece.FromString(raw)
        except DecodeError as error:
            raise WireError(
                f"piece {len(self._parts)}: not a Piece message. "
                f"Received: {len(raw)} bytes"
            ) from error
        if self._total < 0:
            self._begin(piece)
        elif piece.method or piece.total_bytes:
            raise WireError(
                f"piece {len(self._parts)}: only the first names the method "
                f"and the size. Received: method={piece.method!r}, "
                f"total_bytes={piece.total_bytes}"
            )
        # Every look at `piece.data` makes a copy: one look.
        data = piece.data
        checksums.check(data, piece.crc32c, f"piece {len(self._parts)}")
        self._received += len(data)
        if self._received > self._total or (self._parts and not data):
            raise WireError(
                f"piece {len(self._parts)}: the message has {self._total} "
                f"bytes. Received: {self._received} bytes, the last piece "
                f"of {len(data)}"
            )
        self._parts.append(data)

    def _begin(self, piece: tensor_pb2.Piece) -> None:
        if piece.total_bytes > self._max_bytes:
            raise WireError(
                f"total_bytes: a message has at most {self._max_bytes} "
                f"bytes. Received: total_bytes={piece.total_bytes}"
            )
        self.method = piece.method
        self._total = piece.total_bytes

    def message(self) -> bytes:
        """Returns the whole message.

        Raises:
            WireError: Pieces are missing.
        """
        if self._received != self._total:
            raise WireError(
                f"pieces: the message has {max(self._total, 0)} bytes. "
                f"Received: {self._received} bytes in "
                f"{len(self._parts)} pieces"
            )
        if len(self._parts) == 1:
            return self._parts[0]
        return b"".join(self._parts)
