"""Compression of tensors in blocks of 1 MiB.

Blocks keep every buffer small: a reader decompresses each block into its
place in an array whose size it knows beforehand, so that bytes that claim
to be more cannot make it allocate more.
"""

from collections.abc import Callable, Sequence

import cramjam
import numpy as np

from elastic_keras.wire.errors import WireError
from elastic_keras.wire.proto import tensor_pb2

BLOCK_BYTES = 1 << 20
# The fast end: rows and gradients are nearly noise, higher levels find
# nothing more in them.
_ZSTD_LEVEL = 1
# A zstd frame names the memory its reader needs; ours never need more.
_ZSTD_MAX_WINDOW = 8 << 20

_NAMES = ("NONE", "LZ4", "SNAPPY", "ZSTD")

_Compress = Callable[[memoryview], bytes]
_Decompress = Callable[[memoryview, memoryview], int]


def by_name(name: str) -> int:
    """Returns the wire's number of a compression.

    Args:
        name: `none`, `lz4`, `snappy` or `zstd`.

    Raises:
        ValueError: Another name.
    """
    if name.upper() not in _NAMES:
        raise ValueError(
            "compression takes one of none, lz4, snappy, zstd. "
            f"Received: compression={name!r}"
        )
    return int(tensor_pb2.Compression.Value(name.upper()))


def compress(plain: np.ndarray, compression: int) -> tuple[bytes, list[int]]:
    """Compresses bytes block by block.

    Args:
        plain: uint8 array of shape `(n,)`.
        compression: A `tensor_pb2.Compression` other than `NONE`.

    Returns:
        The blocks one after another, and the size of each.
    """
    function = _COMPRESS[compression]
    blocks = [
        function(plain.data[start : start + BLOCK_BYTES])
        for start in range(0, plain.size, BLOCK_BYTES)
    ]
    return b"".join(blocks), [len(block) for block in blocks]


def decompress(
    data: bytes | np.ndarray,
    block_bytes: Sequence[int],
    compression: int,
    size: int,
    name: str,
) -> np.ndarray:
    """Decompresses what `compress` made.

    Args:
        data: The blocks one after another.
        block_bytes: The size of each in `data`.
        compression: A `tensor_pb2.Compression` other than `NONE`.
        size: How many plain bytes there must be.
        name: What they are, for messages.

    Returns:
        uint8 array of shape `(size,)`.

    Raises:
        WireError: The bytes are not exactly `size` plain bytes.
    """
    function = _DECOMPRESS.get(compression)
    if function is None:
        raise WireError(
            f"{name}: unknown compression. Received: compression={compression}"
        )
    expected = -(-size // BLOCK_BYTES)
    if len(block_bytes) != expected or sum(block_bytes) != len(data):
        raise WireError(
            f"{name}: {size} bytes come in {expected} blocks that fill the "
            f"data. Received: {len(block_bytes)} blocks of "
            f"{sum(block_bytes)} bytes in all, {len(data)} bytes of data"
        )
    # Memory is really taken only as blocks arrive in it.
    plain = np.empty(size, np.uint8)
    view = memoryview(data)  # type: ignore[arg-type]
    start = 0
    for i, length in enumerate(block_bytes):
        block = view[start : start + length]
        start += length
        target = plain.data[i * BLOCK_BYTES : (i + 1) * BLOCK_BYTES]
        try:
            written = function(block, target)
        except cramjam.DecompressionError as error:
            raise WireError(
                f"{name}: block {i} does not decompress. Received: {error}"
            ) from error
        if written != target.nbytes:
            raise WireError(
                f"{name}: block {i} must hold {target.nbytes} bytes. "
                f"Received: {written} bytes"
            )
    return plain


def _compress_lz4(plain: memoryview) -> bytes:
    return bytes(cramjam.lz4.compress_block(plain, store_size=False))


def _compress_snappy(plain: memoryview) -> bytes:
    return bytes(cramjam.snappy.compress_raw(plain))


def _compress_zstd(plain: memoryview) -> bytes:
    return bytes(cramjam.zstd.compress(plain, level=_ZSTD_LEVEL))


def _decompress_lz4(block: memoryview, target: memoryview) -> int:
    return int(
        cramjam.lz4.decompress_block_into(
            block, target, output_len=target.nbytes
        )
    )


def _decompress_snappy(block: memoryview, target: memoryview) -> int:
    return int(cramjam.snappy.decompress_raw_into(block, target))


def _decompress_zstd(block: memoryview, target: memoryview) -> int:
    _check_zstd_window(block)
    return int(cramjam.zstd.decompress_into(block, target))


def _check_zstd_window(block: memoryview) -> None:
    """Refuses a frame that asks for more memory than a block can need.

    RFC 8878, 3.1.1.1: magic number, descriptor, then (unless the frame is a
    single segment, whose window is its content) the window's descriptor.
    """
    if len(block) < 6 or block[4] & 0x20:
        return
    exponent, mantissa = block[5] >> 3, block[5] & 7
    window = (1 << (10 + exponent)) * (8 + mantissa) // 8
    if window > _ZSTD_MAX_WINDOW:
        raise cramjam.DecompressionError(
            f"a zstd window of {window} bytes, at most {_ZSTD_MAX_WINDOW}"
        )


_COMPRESS: dict[int, _Compress] = {
    tensor_pb2.LZ4: _compress_lz4,
    tensor_pb2.SNAPPY: _compress_snappy,
    tensor_pb2.ZSTD: _compress_zstd,
}
_DECOMPRESS: dict[int, _Decompress] = {
    tensor_pb2.LZ4: _decompress_lz4,
    tensor_pb2.SNAPPY: _decompress_snappy,
    tensor_pb2.ZSTD: _decompress_zstd,
}
