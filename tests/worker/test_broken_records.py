"""With records left out, whoever makes a task's batches makes the same."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_keras.data.pipeline import BatchPipeline
from elastic_keras.data.reader import DataReader, Metadata, RecordRange
from elastic_keras.worker.broken_records import BrokenRecords


def _parse(line):
    number = tf.strings.to_number(line, tf.int64)
    return number, number


def _plain(dataset, mode, metadata):
    return dataset.map(_parse)


def _shuffling(dataset, mode, metadata):
    return dataset.shuffle(400, seed=1).map(_parse)


def _reading_ahead(dataset, mode, metadata):
    # What is parsed in a batch fails as a whole.
    return dataset.prefetch(9).batch(metadata.minibatch_size).map(_parse)


def _in_windows(dataset, mode, metadata):
    return dataset.window(7).flat_map(lambda w: w.shuffle(7)).map(_parse)


def _dropping(dataset, mode, metadata):
    return dataset.map(_parse).filter(lambda x, y: x % 3 != 0)


def _taking(dataset, mode, metadata):
    # Whether it meets a broken record depends on the order.
    return dataset.shuffle(400).take(12).map(_parse)


def _untraced(dataset, mode, metadata):
    # Python's own iteration is not for graphs.
    list(dataset.take(1).as_numpy_iterator())
    return dataset.shuffle(400).map(_parse)


class _Numbers(DataReader):
    """Reads the numbers of two ranges, some of which are none.

    Args:
        count: Numbers of a range.
        broken: Those that are replaced.
    """

    def __init__(self, count: int, broken: set[int]) -> None:
        self._count = count
        self._broken = broken

    def ranges(self, records_per_task: int) -> list[RecordRange]:
        """Returns the ranges."""
        starts = (0, self._count)
        return [RecordRange("", start, self._count) for start in starts]

    def records(self, record_range: RecordRange) -> list[str]:
        """Returns the records of a range."""
        return [
            "x" if n in self._broken else str(n)
            for n in np.arange(self._count) + record_range.start
        ]


class _Worker:
    """Makes batches as a worker does, with a memory of its own.

    Args:
        dataset_fn: The user's.
        reader: The data.
        size: Examples in a batch.
    """

    def __init__(self, dataset_fn, reader, size):
        self.reader = reader
        self.broken = BrokenRecords("skip")
        self.check, self.pipeline = (
            BatchPipeline(dataset_fn, "training", Metadata(), size)
            for _ in range(2)
        )

    def batches(self, source, seed):
        """Returns the batches' numbers, and what was counted."""
        raw, counts = self.broken.read(
            "training", source, self.reader, self.check, seed
        )
        batches = self.pipeline.batches(raw)
        return [x.numpy().tolist() for x, *_ in batches], counts


@settings(max_examples=4, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize(
    "dataset_fn",
    [
        _plain,
        _shuffling,
        _reading_ahead,
        _in_windows,
        _dropping,
        _taking,
        _untraced,
    ],
)
def test_batches_are_a_function_of_the_task(dataset_fn, data):
    count = data.draw(st.integers(11, 90), "count")
    broken = data.draw(
        st.sets(st.integers(0, 2 * count - 1), max_size=9), "broken"
    )
    size = data.draw(st.integers(1, 20), "size")
    seeds = data.draw(
        st.lists(st.none() | st.integers(0, 2**63), min_size=2, max_size=2),
        "seeds",
    )
    reader = _Numbers(count, broken)
    ranges = reader.ranges(count)
    tasks = list(itertools.product(ranges, seeds))
    one = _Worker(dataset_fn, reader, size)
    made = {task: one.batches(*task) for task in tasks}
    task = data.draw(st.sampled_from(tasks), "task")
    # Nothing that it has seen before changes a task.
    assert one.batches(*task) == made[task]
    # One that takes the task over knows nothing of what the first saw.
    k = data.draw(st.integers(0, len(made[task][0])), "k")
    continued, counts = _Worker(dataset_fn, reader, size).batches(*task)
    assert counts == made[task][1]
    made[task] = made[task][0][:k] + continued[k:], counts
    for task, (batches, _) in made.items():
        start = task[0].start
        good = set(range(start, start + count)) - broken
        numbers = list(itertools.chain(*batches))
        if dataset_fn is _taking:
            assert len(numbers) == len(set(numbers)) == min(12, len(good))
            assert set(numbers) <= good
            continue
        if dataset_fn is _dropping:
            good = {n for n in good if n % 3}
        assert sorted(numbers) == sorted(good)


def test_an_error_of_no_record_is_not_swallowed():
    def dataset_fn(dataset, mode, metadata):
        def limited(number, example):
            few = tf.debugging.Assert(number < 3, ["too many"])
            with tf.control_dependencies([few]):
                return tf.nest.map_structure(tf.identity, example)

        return dataset.map(_parse).enumerate().map(limited)

    reader = _Numbers(5, {1})
    worker = _Worker(dataset_fn, reader, 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="too many"):
        list(worker.batches(reader.ranges(5)[1], None))
