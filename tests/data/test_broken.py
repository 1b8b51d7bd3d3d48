"""Which records a dataset_fn fails on, found one by one."""

import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.data.broken import may_be_of_a_record, reason_of
from elastic_keras.data.file_reader import FileReader
from elastic_keras.data.pipeline import BatchPipeline
from elastic_keras.data.reader import DataReader, Metadata, RecordRange


def _parse(line):
    label, x = tf.io.decode_csv(line, [tf.constant([], tf.int32), 0.5])
    return x, label


def _by_record(dataset, mode, metadata):
    return dataset.map(_parse, num_parallel_calls=2).filter(lambda x, y: x < 9)


def _by_batch(dataset, mode, metadata):
    return dataset.batch(metadata.minibatch_size).map(_parse)


def _untraced(dataset, mode, metadata):
    # Python's own iteration is not for graphs.
    list(dataset.take(1).as_numpy_iterator())
    return dataset.map(_parse)


def _lines(count, broken):
    return [b"x,1" if i in broken else b"%d,%d" % (i, i) for i in range(count)]


@pytest.mark.parametrize("dataset_fn", [_by_record, _by_batch])
@pytest.mark.parametrize(
    "broken", [(), (0,), (199,), (3, 4, 63, 64, 190), tuple(range(64, 128))]
)
def test_each_broken_record_is_found(dataset_fn, broken):
    pipeline = BatchPipeline(dataset_fn, "training", Metadata(), 8)
    found = pipeline.broken(_lines(200, broken))
    assert sorted(found) == list(broken)
    assert set(found.values()) <= {"Field 0 is not a valid int32: x"}


def test_a_dataset_fn_that_cannot_be_traced():
    pipeline = BatchPipeline(_untraced, "training", Metadata(), 8)
    assert sorted(pipeline.broken(_lines(70, (3, 69)))) == [3, 69]
    assert not pipeline.traced


def test_only_the_first_group_is_looked_at():
    pipeline = BatchPipeline(_by_record, "training", Metadata(), 8)
    found = pipeline.broken(_lines(300, (70, 71, 250)), first_only=True)
    assert sorted(found) == [70, 71]


def test_a_dataset_that_goes_on_raising_ends():
    def dataset_fn(dataset, mode, metadata):
        # The first element of each task is looked at again and again.
        first = dataset.take(1).map(_parse).repeat(3)
        return first.concatenate(dataset.skip(1).map(_parse))

    pipeline = BatchPipeline(dataset_fn, "training", Metadata(), 8)
    assert sorted(pipeline.broken(_lines(10, (0, 5)))) == [0, 5]


def test_what_an_error_says_of_the_record():
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        list(
            tf.data.Dataset.from_tensors("no number").map(tf.strings.to_number)
        )
    assert may_be_of_a_record(caught.value)
    assert reason_of(caught.value) == (
        "StringToNumberOp could not correctly convert string: no number"
    )


def test_an_exception_of_python_is_the_codes():
    def mine(line):
        raise ValueError("my own mistake")

    dataset = tf.data.Dataset.from_tensors("a").map(
        lambda line: tf.py_function(mine, [line], tf.string)
    )
    with pytest.raises(tf.errors.OpError) as caught:
        list(dataset)
    assert not may_be_of_a_record(caught.value)


def test_where_a_record_of_a_file_is(tmp_path):
    path = str(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text('n,1\n7,7,7\nx,2\n1,"2"\n')
    reader = FileReader([path])
    (whole,) = reader.ranges(9)
    # The second one has too many columns: it is none of the good ones.
    error = reader.broken_record(whole, 1, "why")
    assert (error.source, error.record, error.position) == (path, 2, 10)
    error = reader.broken_record(whole, 0, "why")
    assert (error.record, error.position) == (0, 0)
    assert "--csv_header" in str(error)
    dataset, counts = reader.dataset(whole, bad_records="skip", leave_out=(1,))
    assert list(dataset.as_numpy_iterator()) == [b"n,1", b'1,"2"']
    assert (counts.records, counts.bad_records) == (2, 2)


def test_what_is_left_out_is_left_out_of_a_shuffle(tmp_path):
    path = str(tmp_path / "a.txt")
    (tmp_path / "a.txt").write_text("\n".join("abcdef") + "\n")
    reader = FileReader([path])
    (whole,) = reader.ranges(9)
    dataset, _ = reader.dataset(whole, shuffle_seed=3, leave_out=(0, 2))
    assert sorted(dataset.as_numpy_iterator()) == [b"b", b"d", b"e", b"f"]


def test_where_a_record_of_a_custom_reader_is():
    class Numbers(DataReader):
        def ranges(self, records_per_task):
            return [RecordRange("numbers", 10, 3)]

        def records(self, record_range):
            yield from (str(n) for n in np.arange(10, 13))

    reader = Numbers()
    (whole,) = reader.ranges(3)
    error = reader.broken_record(whole, 2, "why")
    assert str(error).endswith("Received: numbers, record 12")
    dataset, counts = reader.dataset(whole, leave_out=(0, 2))
    assert list(dataset.as_numpy_iterator()) == [b"11"]
    assert (counts.records, counts.bad_records) == (1, 2)
    every = list(reader.dataset(whole, shuffle_seed=5)[0].as_numpy_iterator())
    dataset, _ = reader.dataset(whole, shuffle_seed=5, leave_out=(1,))
    every.remove(b"11")
    assert list(dataset.as_numpy_iterator()) == every
