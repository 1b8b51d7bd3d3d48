import fcntl
import mmap
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_keras.wire import shared_memory, tensors
from elastic_keras.wire.errors import WireError
from elastic_keras.wire.proto import tensor_pb2
from elastic_keras.wire.shared_memory import OpenSegments, Segment, Writer

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="memfd and /proc are Linux's"
)
SIZE = 4 << 20


@pytest.fixture
def segment():
    made = Segment(SIZE)
    yield made
    made.close()


def _message(region, **fields):
    message = tensor_pb2.Region()
    message.CopyFrom(region.message)
    for name, value in fields.items():
        setattr(message, name, value)
    return message


def test_what_one_side_writes_the_other_reads(segment):
    region = segment.take(1000)
    there = OpenSegments().array(region.message)
    assert there.size == region.array.size >= 1000
    region.array[:3] = [1, 2, 3]
    np.testing.assert_array_equal(there[:3], [1, 2, 3])
    there[-1] = 9
    assert region.array[-1] == 9


def test_regions_do_not_overlap(segment):
    regions = [segment.take(size) for size in (1, 70_000, 1, 200_000)]
    for number, region in enumerate(regions):
        region.array[:] = number
    for number, region in enumerate(regions):
        assert set(region.array.tolist()) == {number}


def test_a_region_comes_back_once_the_last_array_on_it_is_gone(segment):
    region = segment.take(1000)
    place = region.message.offset
    rows = region.array[64:128].view(np.float32).reshape(4, 4)[1:]
    del region
    assert segment.take(1000).message.offset != place
    del rows
    assert segment.take(1000).message.offset == place


def test_a_region_that_is_used_up_never_comes_back(segment):
    region = segment.take(1000)
    there = OpenSegments().array(region.message)
    region.use_up()
    region.use_up()
    place = region.message.offset
    del region
    assert segment.take(1000).message.offset != place
    # A server that is late writes where nobody looks.
    there[:] = 1


def test_a_full_segment_gives_nothing(segment):
    regions = []
    while (region := segment.take(300_000)) is not None:
        regions.append(region)
    assert len(regions) >= 8
    regions.pop()
    assert segment.take(300_000) is not None


def test_a_segment_that_was_opened_outlives_its_owner():
    code = """
from elastic_keras.wire.shared_memory import Segment
segment = Segment(1 << 20)
region = segment.take(10)
region.array[:2] = [7, 8]
print(region.message.SerializeToString().hex(), flush=True)
input()
"""
    opened = OpenSegments()
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        message = tensor_pb2.Region.FromString(
            bytes.fromhex(owner.stdout.readline())
        )
        there = opened.array(message)
        owner.kill()
        owner.wait()
    np.testing.assert_array_equal(there[:2], [7, 8])
    # The next segment that is opened makes room for itself.
    segment = Segment(SIZE)
    opened.array(segment.take(1).message)
    with pytest.raises(WireError, match="cannot be opened"):
        opened.array(message)
    segment.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"key": b"another segment."},
        {"key": b""},
        {"fd": 10_000},
        {"fd": -1},
        {"fd": 0},
        {"pid": 1 << 30},
        {"pid": -1},
        {"segment_bytes": SIZE * 2},
        {"segment_bytes": 0},
    ],
)
def test_another_segment_is_not_opened(segment, fields):
    message = _message(segment.take(1), **fields)
    with pytest.raises(WireError, match="cannot be opened"):
        OpenSegments().array(message)


@pytest.mark.parametrize(
    "fields",
    [
        {"offset": SIZE},
        {"bytes": SIZE},
        {"offset": (1 << 64) - 64, "bytes": 1 << 63},
        {"offset": 65},
        {"segment_bytes": SIZE * 2},
    ],
)
def test_a_region_lies_in_its_segment(segment, fields):
    region = segment.take(1)
    opened = OpenSegments()
    opened.array(region.message)
    with pytest.raises(WireError, match="region"):
        opened.array(_message(region, **fields))


def test_memory_that_could_shrink_is_not_opened():
    # Its owner could otherwise end the server by a bus error.
    fd = os.memfd_create("elastic_keras", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, SIZE)
    memory = mmap.mmap(fd, SIZE)
    memory[:16] = b"k" * 16
    message = tensor_pb2.Region(
        pid=os.getpid(), fd=fd, segment_bytes=SIZE, key=b"k" * 16, bytes=64
    )
    with pytest.raises(WireError, match="sealed"):
        OpenSegments().array(message)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    assert OpenSegments().array(message).size == 64
    os.close(fd)


def test_other_files_are_not_opened(tmp_path):
    with open(tmp_path / "file", "wb+") as file:
        file.write(b"k" * SIZE)
        file.flush()
        message = tensor_pb2.Region(
            pid=os.getpid(),
            fd=file.fileno(),
            segment_bytes=SIZE,
            key=b"k" * 16,
            bytes=64,
        )
        with pytest.raises(WireError, match="not a segment"):
            OpenSegments().array(message)


def _sent(array, region, **encoding):
    tensor = tensor_pb2.Tensor()
    tensors.encode_into(tensor, array, region=region, **encoding)
    return tensor


@given(
    shape=st.lists(st.integers(0, 40), min_size=0, max_size=3),
    start=st.integers(0, 300),
    strided=st.booleans(),
    encoding=st.sampled_from(
        [
            {},
            {"wire_dtype": "bfloat16"},
            {"compression": "lz4"},
            {"wire_dtype": "float16", "compression": "zstd"},
        ]
    ),
)
def test_arrays_come_out_of_a_region_as_of_a_message(
    shape, start, strided, encoding
):
    region = np.zeros(100_000, np.uint8)
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32)
    array = array.reshape(shape)
    if strided and shape:
        array = array[::2]
    plain = tensors.decode(tensors.encode(array, **encoding), name="x")
    tensor = _sent(array, Writer(region, start), **encoding)
    found = tensors.decode(tensor, name="x", region=region)
    np.testing.assert_array_equal(found, plain)
    assert not tensor.data or not array.size or array.nbytes > 100_000 - 400


def test_an_array_made_in_the_region_is_not_copied():
    region = np.zeros(1000, np.uint8)
    writer = Writer(region)
    array = writer.empty((10, 3), np.dtype(np.float32))
    array[:] = 2
    assert np.shares_memory(array, region)
    end = writer.end
    tensor = _sent(array, writer)
    assert writer.end == end
    found = tensors.decode(tensor, name="x", region=region)
    assert np.shares_memory(found, array)


def test_what_has_no_room_goes_into_the_message():
    writer = Writer(np.zeros(128, np.uint8))
    first = _sent(np.ones(20, np.float32), writer)
    second = _sent(np.ones(20, np.float32), writer)
    assert (first.region_bytes, first.data) == (80, b"")
    assert (second.region_bytes, len(second.data)) == (0, 80)


@pytest.mark.parametrize(
    "fields",
    [
        {"region_offset": 950},
        {"region_bytes": 1001},
        {"region_bytes": 40},
        {"region_offset": 64},
        {"crc32c": 5},
        {"region_offset": (1 << 64) - 8},
    ],
)
def test_bytes_outside_the_region_or_changed_are_refused(fields):
    region = np.zeros(1000, np.uint8)
    tensor = _sent(np.ones(20, np.float32), Writer(region))
    for name, value in fields.items():
        setattr(tensor, name, value)
    with pytest.raises(WireError, match="x:"):
        tensors.decode(tensor, name="x", region=region)


def test_bytes_in_a_region_need_one():
    tensor = _sent(np.ones(20, np.float32), Writer(np.zeros(1000, np.uint8)))
    with pytest.raises(WireError, match="the region of the message has 0"):
        tensors.decode(tensor, name="x")


def test_only_processes_of_one_host_share():
    assert shared_memory.is_available("unix:/tmp/a.sock")
    assert not shared_memory.is_available("10.0.0.1:2222")
