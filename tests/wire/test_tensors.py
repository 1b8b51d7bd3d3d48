"""Arrays to messages and back, and what must not come through."""

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from elastic_keras.wire import tensors
from elastic_keras.wire.errors import WireError
from elastic_keras.wire.proto import tensor_pb2

COMPRESSIONS = ("none", "lz4", "snappy", "zstd")
DTYPES = (np.float32, np.float64, np.int32, np.int64, np.uint8)
HALVES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}

_shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6)
_compressions = st.sampled_from(COMPRESSIONS)


def _same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and left.tobytes() == right.tobytes()
    )


@given(
    array=st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(dtype, _shapes)
    ),
    compression=_compressions,
)
@settings(deadline=None)
def test_round_trip_keeps_every_bit(array, compression):
    tensor = tensors.encode(array, compression=compression)
    sent = tensor_pb2.Tensor.FromString(tensor.SerializeToString())
    decoded = tensors.decode(
        sent, name="x", dtype=array.dtype, shape=array.shape
    )
    assert _same_bits(decoded, array)


@given(
    array=hnp.arrays(np.float32, _shapes),
    wire_dtype=st.sampled_from(sorted(HALVES)),
    compression=_compressions,
)
@settings(deadline=None)
def test_halves_round_to_nearest_even(array, wire_dtype, compression):
    tensor = tensors.encode(
        array, wire_dtype=wire_dtype, compression=compression
    )
    decoded = tensors.decode(
        tensor, name="x", dtype=np.float32, shape=array.shape
    )
    with np.errstate(over="ignore"):
        rounded = array.astype(HALVES[wire_dtype]).astype(np.float32)
    largest = np.float32(ml_dtypes.finfo(HALVES[wire_dtype]).max)
    overflow = np.isinf(rounded) & np.isfinite(array)
    expected = np.where(overflow, np.copysign(largest, array), rounded)
    np.testing.assert_array_equal(decoded, expected)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("wire_dtype", ["float32", *HALVES])
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_several_blocks(compression, wire_dtype, extra):
    # Around a multiple of the block size, for four and for two bytes.
    size = 3 * (1 << 18) + extra
    array = np.linspace(-1, 1, size, dtype=np.float32)
    tensor = tensors.encode(
        array, wire_dtype=wire_dtype, compression=compression
    )
    decoded = tensors.decode(tensor, name="x", shape=(size,))
    np.testing.assert_allclose(decoded, array, atol=1 / 256)
    if wire_dtype == "float32":
        assert _same_bits(decoded, array)


@pytest.mark.parametrize("compression", ["lz4", "snappy", "zstd"])
def test_compression_makes_regular_bytes_smaller(compression):
    array = np.zeros((1000, 1000), np.float32)
    tensor = tensors.encode(array, compression=compression)
    assert len(tensor.data) < array.nbytes / 10
    assert len(tensor.block_bytes) == 4


def test_other_dtypes_ignore_the_wire_dtype():
    ids = np.array([1, 1 << 60, -1])
    tensor = tensors.encode(ids, wire_dtype="float16")
    assert tensor.dtype == tensor_pb2.INT64
    np.testing.assert_array_equal(tensors.decode(tensor, name="ids"), ids)


@pytest.mark.parametrize("order", ["<", ">"])
def test_any_byte_order_and_stride_goes_in_native_comes_out(order):
    array = np.arange(24, dtype=f"{order}f4").reshape(4, 6).T[::2]
    decoded = tensors.decode(tensors.encode(array), name="x")
    assert decoded.dtype.isnative
    np.testing.assert_array_equal(decoded, array)


def test_float32_is_a_read_only_view():
    decoded = tensors.decode(tensors.encode(np.ones(8, np.float32)), name="x")
    assert not decoded.flags.writeable
    assert not decoded.flags.owndata


def test_encode_into_a_field_of_a_message():
    outer = tensor_pb2.Tensor()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensors.encode_into(outer, array, wire_dtype="bfloat16")
    assert outer == tensors.encode(array, wire_dtype="bfloat16")


@pytest.mark.parametrize(
    "array",
    [
        np.ones(2, bool),
        np.ones(2, np.complex64),
        np.array(["a"]),
        np.array([None]),
        np.ones(2, np.uint64),
    ],
)
def test_dtypes_that_do_not_travel(array):
    with pytest.raises(ValueError, match="Received: dtype="):
        tensors.encode(array)


@pytest.mark.parametrize(
    "options", [{"wire_dtype": "float8"}, {"compression": "gzip"}]
)
def test_unknown_options(options):
    with pytest.raises(ValueError, match=r"takes one of .* Received: "):
        tensors.encode(np.ones(2, np.float32), **options)


@given(data=st.data(), compression=_compressions)
@settings(deadline=None)
def test_any_flipped_bit_of_the_payload_is_found(data, compression):
    array = np.arange(64, dtype=np.float32).reshape(8, 8)
    tensor = tensors.encode(array, compression=compression)
    payload = bytearray(tensor.data)
    position = data.draw(st.integers(0, len(payload) - 1))
    payload[position] ^= data.draw(st.integers(1, 255))
    tensor.data = bytes(payload)
    with pytest.raises(WireError, match="rows: the checksum"):
        tensors.decode(tensor, name="rows")


@given(data=st.data(), compression=st.sampled_from(["lz4", "snappy", "zstd"]))
@settings(deadline=None)
def test_damage_with_a_right_checksum_is_found_or_harmless(data, compression):
    # Not what a wire does, but what a hostile writer can do.
    array = np.repeat(np.arange(64, dtype=np.float32), 8)
    tensor = tensors.encode(array, compression=compression)
    payload = bytearray(tensor.data)
    position = data.draw(st.integers(0, len(payload) - 1))
    payload[position] ^= data.draw(st.integers(1, 255))
    tensor.data = bytes(payload)
    tensor.crc32c = tensors.checksums.crc32c(tensor.data)
    try:
        decoded = tensors.decode(tensor, name="rows")
    except WireError:
        return
    assert decoded.shape == array.shape


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_larger_shape_is_refused_without_allocation(compression):
    tensor = tensors.encode(np.ones(1024, np.float32), compression=compression)
    del tensor.shape[:]
    tensor.shape.extend([1 << 20, 200])
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="dense: "):
            tensors.decode(tensor, name="dense")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@pytest.mark.parametrize("compression", ["lz4", "snappy", "zstd"])
@pytest.mark.parametrize("length", [1000, 1030])
def test_a_block_must_hold_what_the_shape_says(compression, length):
    tensor = tensors.encode(np.ones(1024, np.float32), compression=compression)
    tensor.shape[0] = length
    with pytest.raises(WireError, match="x: block 0"):
        tensors.decode(tensor, name="x")


def test_sizes_beyond_64_bits_are_refused():
    tensor = tensors.encode(np.ones(4, np.float32))
    del tensor.shape[:]
    tensor.shape.extend([1 << 62, 1 << 62, 1 << 62])
    with pytest.raises(WireError, match="x: larger than"):
        tensors.decode(tensor, name="x")


def test_max_bytes_counts_the_widened_array():
    array = np.ones(1000, np.float32)
    for wire_dtype in ("float32", "float16"):
        tensor = tensors.encode(array, wire_dtype=wire_dtype)
        tensors.decode(tensor, name="x", max_bytes=4000)
        with pytest.raises(WireError, match="x: larger than the 3999 bytes"):
            tensors.decode(tensor, name="x", max_bytes=3999)


def _changed(**fields) -> tensor_pb2.Tensor:
    tensor = tensors.encode(np.ones((2, 3), np.float32))
    for name, value in fields.items():
        if name in ("shape", "block_bytes"):
            tensor.ClearField(name)
            getattr(tensor, name).extend(value)
        else:
            setattr(tensor, name, value)
    return tensor


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dtype": 0}, "unknown dtype"),
        ({"dtype": 99}, "unknown dtype"),
        ({"dtype": tensor_pb2.INT32}, "must be float32"),
        ({"dtype": tensor_pb2.FLOAT16}, "takes 12 bytes"),
        ({"shape": (3, 2)}, r"must have shape \(any, 3\)"),
        ({"shape": (6,)}, r"must have shape \(any, 3\)"),
        ({"shape": (3, 3)}, "takes 36 bytes"),
        ({"shape": (-2, -3)}, "at least 0"),
        ({"shape": (1,) * 40}, "at most 32"),
        ({"data": b""}, "takes 24 bytes"),
        ({"crc32c": 1}, "checksum"),
        ({"compression": 99}, "unknown compression"),
        ({"compression": tensor_pb2.LZ4}, "blocks"),
        ({"block_bytes": (24,)}, "1 blocks"),
        (
            {"compression": tensor_pb2.ZSTD, "block_bytes": (24,)},
            "does not decompress",
        ),
        (
            {"compression": tensor_pb2.ZSTD, "block_bytes": (23,)},
            "blocks that fill",
        ),
    ],
)
def test_what_does_not_fit_is_named(fields, message):
    with pytest.raises(WireError, match=f"rows: .*{message}") as caught:
        tensors.decode(
            _changed(**fields), name="rows", dtype=np.float32, shape=(None, 3)
        )
    assert "Received: " in str(caught.value)


def test_a_zstd_frame_may_not_ask_for_a_large_window():
    block = bytearray(
        tensors.compression.compress(np.zeros(100, np.uint8), tensor_pb2.ZSTD)[
            0
        ]
    )
    # A frame with a window descriptor: 1 GiB.
    block[4] &= 0xFF ^ 0x20
    block[5] = 20 << 3
    with pytest.raises(WireError, match="window"):
        tensors.compression.decompress(
            bytes(block), [len(block)], tensor_pb2.ZSTD, 100, "x"
        )


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_names_of_wire_dtypes(name):
    number = tensors.wire_dtype_number(name)
    assert tensors.wire_dtype_name(number) == name


def test_wrong_numbers_are_named():
    assert tensors.wire_dtype_name(tensor_pb2.DTYPE_UNSPECIFIED) == "float32"
    with pytest.raises(WireError, match="Received: wire_dtype=5"):
        tensors.wire_dtype_name(tensor_pb2.INT64)
    assert tensors.compression_name(tensor_pb2.ZSTD) == "zstd"
    with pytest.raises(WireError, match="Received: compression=17"):
        tensors.compression_name(17)
