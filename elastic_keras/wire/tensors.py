"""Arrays to `Tensor` messages and back."""

import math

import numpy as np

from elastic_keras.wire import checksums, compression, halves
from elastic_keras.wire.errors import WireError
from elastic_keras.wire.proto import tensor_pb2
from elastic_keras.wire.shared_memory import Writer

DEFAULT_MAX_BYTES = 1 << 30
# More than any Keras variable has; bounds what a message can make us read.
_MAX_RANK = 32

_DTYPES: dict[int, np.dtype] = {
    tensor_pb2.FLOAT32: np.dtype("<f4"),
    tensor_pb2.FLOAT64: np.dtype("<f8"),
    tensor_pb2.INT32: np.dtype("<i4"),
    tensor_pb2.INT64: np.dtype("<i8"),
    tensor_pb2.UINT8: np.dtype("u1"),
}
_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}
_HALVES: dict[int, str] = {
    tensor_pb2.FLOAT16: "float16",
    tensor_pb2.BFLOAT16: "bfloat16",
}
_BITS = np.dtype("<u2")


def wire_dtype_number(name: str) -> int:
    """Returns the wire's number of a `--wire_dtype`.

    Args:
        name: `float32`, `bfloat16` or `float16`.

    Raises:
        ValueError: Another name.
    """
    if name not in ("float32", "bfloat16", "float16"):
        raise ValueError(
            "wire_dtype takes one of float32, bfloat16, float16. "
            f"Received: wire_dtype={name!r}"
        )
    return int(tensor_pb2.DType.Value(name.upper()))


def wire_dtype_name(number: int, *, name: str = "wire_dtype") -> str:
    """Returns the `--wire_dtype` of the wire's number.

    Args:
        number: A `tensor_pb2.DType`; unspecified means float32.
        name: The message's field, for the error.

    Raises:
        WireError: Not a dtype that rows may travel in.
    """
    if number in (tensor_pb2.DTYPE_UNSPECIFIED, tensor_pb2.FLOAT32):
        return "float32"
    if number not in _HALVES:
        raise WireError(
            f"{name}: rows travel as float32, bfloat16 or float16. "
            f"Received: {name}={number}"
        )
    return _HALVES[number]


def compression_name(number: int, *, name: str = "compression") -> str:
    """Returns the `--wire_compression` of the wire's number.

    Args:
        number: A `tensor_pb2.Compression`.
        name: The message's field, for the error.

    Raises:
        WireError: Not a compression.
    """
    if number not in tensor_pb2.Compression.values():
        raise WireError(
            f"{name}: unknown compression. Received: {name}={number}"
        )
    return tensor_pb2.Compression.Name(number).lower()


def encode(
    array: np.ndarray,
    *,
    wire_dtype: str = "float32",
    compression: str = "none",
) -> tensor_pb2.Tensor:
    """Makes the message of an array.

    Args:
        array: float32, float64, int32, int64 or uint8, of any shape.
        wire_dtype: What a float32 array travels as: `float32`, `bfloat16`
            or `float16`; other dtypes travel as they are.
        compression: `none`, `lz4`, `snappy` or `zstd`.

    Raises:
        ValueError: A dtype that does not travel, or an unknown name.
    """
    tensor = tensor_pb2.Tensor()
    encode_into(tensor, array, wire_dtype=wire_dtype, compression=compression)
    return tensor


def encode_into(
    tensor: tensor_pb2.Tensor,
    array: np.ndarray,
    *,
    wire_dtype: str = "float32",
    compression: str = "none",
    region: Writer | None = None,
) -> None:
    """Puts an array into an empty message.

    For a field of a larger message: to assign a finished `Tensor` to a field
    copies its bytes three times.

    Args:
        tensor: The message, e.g. `request.dense` or `reply.rows.add()`.
        array: See `encode`.
        wire_dtype: See `encode`.
        compression: See `encode`.
        region: Shared memory for the bytes, used while it has room.

    Raises:
        ValueError: A dtype that does not travel, or an unknown name.
    """
    array = np.asarray(array)
    dtype = array.dtype.newbyteorder("<")
    if dtype not in _NUMBERS:
        raise ValueError(
            "Arrays travel as float32, float64, int32, int64 or uint8. "
            f"Received: dtype={array.dtype}, shape={array.shape}"
        )
    number = _NUMBERS[dtype]
    tensor.shape.extend(array.shape)
    if number == tensor_pb2.FLOAT32 and wire_dtype != "float32":
        number = wire_dtype_number(wire_dtype)
        array = halves.narrow(array.astype(np.float32, copy=False), wire_dtype)
        dtype = _BITS
    tensor.dtype = number  # type: ignore[assignment]
    array = array.astype(dtype, copy=False)
    if compression != "none":
        array = _compressed(tensor, array, compression)
    _fill(tensor, array, region)


def _fill(
    tensor: tensor_pb2.Tensor, array: np.ndarray, region: Writer | None
) -> None:
    placed = None if region is None else region.put(array)
    if placed is None:
        data = array.tobytes()
        tensor.crc32c = checksums.crc32c(data)
        tensor.data = data
    else:
        tensor.region_offset, there = placed
        tensor.region_bytes = there.nbytes
        tensor.crc32c = checksums.crc32c(there)


def _compressed(
    tensor: tensor_pb2.Tensor, array: np.ndarray, name: str
) -> np.ndarray:
    """Returns an array's blocks, of which the message then knows."""
    number = compression.by_name(name)
    plain = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    data, sizes = compression.compress(plain, number)
    tensor.block_bytes.extend(sizes)
    tensor.compression = number  # type: ignore[assignment]
    return np.frombuffer(data, np.uint8)


def decode(
    tensor: tensor_pb2.Tensor,
    *,
    name: str,
    dtype: np.dtype | type | str | None = None,
    shape: tuple[int | None, ...] | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    region: np.ndarray | None = None,
) -> np.ndarray:
    """Reads the array of a message.

    Args:
        tensor: The message.
        name: What it is, for messages.
        dtype: The dtype it must have (halves count as float32), or `None`.
        shape: The shape it must have, `None` for any length, or `None`.
        max_bytes: Largest size of the plain bytes and of the array.
        region: The request's shared memory, where the bytes may lie: uint8,
            shape `(n,)`.

    Returns:
        The array in native byte order, halves widened to float32. Where
        nothing had to be changed it is a view of the message's bytes, which
        is read-only, or of the region.

    Raises:
        WireError: Checksum, size, dtype or shape do not fit.
    """
    wire, is_half = _wire_dtype(tensor, name)
    _check_dtype(np.dtype(np.float32) if is_half else wire, dtype, name)
    found = _checked_shape(tensor, shape, name)
    size = math.prod(found) * wire.itemsize
    if size * (2 if is_half else 1) > max_bytes:
        raise WireError(
            f"{name}: larger than the {max_bytes} bytes allowed. "
            f"Received: shape={found}, dtype={_dtype_name(tensor.dtype)}"
        )
    plain = _plain_bytes(tensor, _data(tensor, region, name), size, name)
    array = np.frombuffer(plain, wire)
    if is_half:
        array = halves.widen(
            array.astype(np.uint16, copy=False), _HALVES[tensor.dtype]
        )
    native = array.dtype.newbyteorder("=")
    return array.astype(native, copy=False).reshape(found)


def _data(
    tensor: tensor_pb2.Tensor, region: np.ndarray | None, name: str
) -> bytes | np.ndarray:
    """Returns the bytes as they were sent."""
    if not tensor.region_bytes:
        return tensor.data
    start, end = (
        tensor.region_offset,
        tensor.region_offset + tensor.region_bytes,
    )
    room = 0 if region is None else region.size
    if region is None or end > room:
        raise WireError(
            f"{name}: the region of the message has {room} bytes. "
            f"Received: bytes {start} to {end} of it"
        )
    return region[start:end]


def _plain_bytes(
    tensor: tensor_pb2.Tensor,
    data: bytes | np.ndarray,
    size: int,
    name: str,
) -> bytes | np.ndarray:
    if tensor.compression == tensor_pb2.NONE:
        if len(data) != size or tensor.block_bytes:
            raise WireError(
                f"{name}: shape {tuple(tensor.shape)} of "
                f"{_dtype_name(tensor.dtype)} takes {size} bytes. "
                f"Received: {len(data)} bytes, "
                f"{len(tensor.block_bytes)} blocks"
            )
        checksums.check(data, tensor.crc32c, name)
        return data
    checksums.check(data, tensor.crc32c, name)
    return compression.decompress(
        data, tensor.block_bytes, tensor.compression, size, name
    )


def _dtype_name(number: int) -> str:
    if number in tensor_pb2.DType.values():
        return tensor_pb2.DType.Name(number).lower()
    return str(number)


def _wire_dtype(tensor: tensor_pb2.Tensor, name: str) -> tuple[np.dtype, bool]:
    if tensor.dtype in _HALVES:
        return _BITS, True
    if tensor.dtype not in _DTYPES:
        raise WireError(
            f"{name}: unknown dtype. Received: dtype={tensor.dtype}"
        )
    return _DTYPES[tensor.dtype], False


def _check_dtype(
    found: np.dtype, dtype: np.dtype | type | str | None, name: str
) -> None:
    if dtype is None:
        return
    expected = np.dtype(dtype).newbyteorder("<")
    if found != expected:
        raise WireError(
            f"{name}: must be {expected.name}. Received: dtype={found.name}"
        )


def _checked_shape(
    tensor: tensor_pb2.Tensor,
    shape: tuple[int | None, ...] | None,
    name: str,
) -> tuple[int, ...]:
    found = tuple(tensor.shape[:_MAX_RANK])
    if len(tensor.shape) > _MAX_RANK or any(length < 0 for length in found):
        raise WireError(
            f"{name}: a shape has at most {_MAX_RANK} lengths of at least 0. "
            f"Received: shape={found}"
        )
    if shape is None:
        return found
    fits = len(found) == len(shape) and all(
        wanted is None or length == wanted
        for length, wanted in zip(found, shape, strict=True)
    )
    if not fits:
        raise WireError(
            f"{name}: must have shape {_shape_text(shape)}. "
            f"Received: shape={found}"
        )
    return found


def _shape_text(shape: tuple[int | None, ...]) -> str:
    lengths = ", ".join("any" if n is None else str(n) for n in shape)
    return f"({lengths})"
