"""TFRecord files against TensorFlow's own reader and writer."""

import pathlib

import hypothesis
import hypothesis.strategies as st
import pytest
import tensorflow as tf

from elastic_keras.data.errors import BadRecord
from elastic_keras.data.file_reader import FileReader
from elastic_keras.data.sources import format_of

_FEW = hypothesis.settings(max_examples=50, deadline=None)


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("tfrecord")


def _write(path: pathlib.Path, payloads: list[bytes]) -> str:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for payload in payloads:
            writer.write(payload)
    return str(path)


@_FEW
@hypothesis.given(
    payloads=st.lists(st.binary(max_size=60), min_size=1, max_size=12),
    size=st.integers(1, 5),
    chunk=st.integers(12, 90),
)
def test_reads_what_tensorflow_writes(folder, payloads, size, chunk):
    path = _write(folder / "a.tfrecord", payloads)
    reader = FileReader([path], chunk_bytes=chunk)
    ranges = reader.ranges(size)
    assert [r for x in ranges for r in reader.records(x)] == payloads
    assert sum(x.count for x in ranges) == len(payloads)
    assert ranges[0].byte_start == 0
    assert ranges[-1].byte_end == (folder / "a.tfrecord").stat().st_size


def test_a_file_without_ending_is_recognised(tmp_path):
    path = _write(tmp_path / "part-00000-of-00001", [b"x" * 5])
    assert format_of(path) == "tfrecord"
    (tmp_path / "day_0").write_text("a line of text\n")
    assert format_of(str(tmp_path / "day_0")) == "text"


def test_a_wrong_payload_breaks_one_record(tmp_path):
    path = _write(tmp_path / "a.tfrecord", [b"one", b"two", b"three"])
    data = bytearray(pathlib.Path(path).read_bytes())
    data[19 + 12] ^= 1  # The first byte of "two".
    pathlib.Path(path).write_bytes(data)
    reader = FileReader([path])
    (whole,) = reader.ranges(10)
    dataset, counts = reader.dataset(whole, bad_records="skip")
    assert list(dataset.as_numpy_iterator()) == [b"one", b"three"]
    assert (counts.records, counts.bad_records) == (2, 1)
    with pytest.raises(BadRecord, match="payload") as caught:
        reader.dataset(whole)
    assert (caught.value.record, caught.value.position) == (1, 19)


@pytest.mark.parametrize("cut", [1, 4, 8, 15])
def test_a_cut_off_end_is_one_broken_record(tmp_path, cut):
    path = _write(tmp_path / "a.tfrecord", [b"one", b"two"])
    data = pathlib.Path(path).read_bytes()
    pathlib.Path(path).write_bytes(data[:-cut])
    reader = FileReader([path])
    first, second = reader.ranges(1)
    assert list(reader.records(first)) == [b"one"]
    with pytest.raises(BadRecord, match="the file ends within") as caught:
        reader.dataset(second)
    assert (caught.value.record, caught.value.position) == (1, 19)
    dataset, counts = reader.dataset(second, bad_records="skip")
    assert list(dataset) == []
    assert (counts.records, counts.bad_records) == (0, 1)


def test_a_wrong_length_ends_the_file(tmp_path):
    path = _write(tmp_path / "a.tfrecord", [b"one", b"two", b"three"])
    data = bytearray(pathlib.Path(path).read_bytes())
    data[19] ^= 1  # The length of "two".
    pathlib.Path(path).write_bytes(data)
    reader = FileReader([path])
    (whole,) = reader.ranges(10)
    assert whole.count == 2
    with pytest.raises(BadRecord, match="record's length"):
        reader.dataset(whole)
    dataset, _ = reader.dataset(whole, bad_records="skip")
    assert list(dataset.as_numpy_iterator()) == [b"one"]
