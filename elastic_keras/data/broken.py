"""Which records a dataset_fn cannot make anything of."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

# Records that are looked at together before they are looked at one by one.
_GROUP = 64
# What a kernel says of values that it cannot read.
_OF_RECORDS = (tf.errors.InvalidArgumentError, tf.errors.DataLossError)
_NOISE = re.compile(
    r"\{\{.*?\}\}|\[\[.*?\]\]|\[Op:.*"
    r"|Error in user-defined function passed to \S+ transformation with "
    r"iterator: \S+: "
    # decode_csv counts the lines of its own input.
    r"| in record \d+(?= is not)",
    re.DOTALL,
)

# From a dataset of vectors of records to one of batches.
Function = Callable[[tf.data.Dataset], tf.data.Dataset]


def may_be_of_a_record(error: BaseException) -> bool:
    """Whether an error may be due to a record rather than to code.

    Args:
        error: What was raised while batches were made.
    """
    # A Python function inside the dataset brings its traceback along.
    return isinstance(error, _OF_RECORDS) and "Traceback (" not in str(error)


def broken_records(
    function: Function,
    records: Sequence[bytes],
    *,
    traced: bool,
    first_only: bool = False,
) -> dict[int, str]:
    """Finds the records with which a function raises.

    Args:
        function: Makes batches of records.
        records: The records.
        traced: Whether the function may be called inside a graph.
        first_only: Looks no further than the first group of neighbours that
            holds a broken record.

    Returns:
        What is wrong, by the position among `records`.
    """
    fails = _in_one_iterator if traced else _one_by_one
    count = len(records)
    starts = np.arange(0, count, _GROUP)
    groups = np.stack([starts, np.minimum(starts + _GROUP, count)], axis=1)
    broken: dict[int, str] = {}

    def look(start: int, stop: int) -> None:
        singles = np.arange(start, stop)
        pairs = np.stack([singles, singles + 1], axis=1)
        for place, reason in fails(function, records, pairs):
            broken[int(singles[place])] = reason

    for group, _ in fails(function, records, groups):
        look(*groups[group].tolist())
        if broken and first_only:
            return broken
    if not broken:
        # One that takes only some records may have passed over it in a group.
        look(0, count)
    return broken


def _in_one_iterator(
    function: Function, records: Sequence[bytes], groups: np.ndarray
) -> Iterator[tuple[int, str]]:
    """Gives the groups that fail, and why: some 0.3 ms for each group.

    An iterator that raised goes on behind the element at which it did.
    """
    tensor = tf.constant(list(records), tf.string)
    bounds = tf.constant(groups, tf.int64)

    def ends(group: tf.Tensor) -> tf.data.Dataset:
        chunk = tensor[bounds[group, 0] : bounds[group, 1]]
        batches = function(_chunks(chunk)).map(lambda *_: False)
        return batches.concatenate(tf.data.Dataset.from_tensors(True))

    begin = 0
    while begin < len(groups):
        order = tf.data.Dataset.range(begin, len(groups))
        iterator = iter(order.flat_map(ends))
        group, errors = begin, 0
        while group < len(groups):
            try:
                over = bool(next(iterator))
            except tf.errors.OpError as error:
                if not errors:
                    yield group, reason_of(error)
                errors += 1
                # Some datasets raise the same again for ever.
                if errors > groups[group, 1] - groups[group, 0]:
                    break
                continue
            if over:
                group, errors = group + 1, 0
        begin = group + 1


def _one_by_one(
    function: Function, records: Sequence[bytes], groups: np.ndarray
) -> Iterator[tuple[int, str]]:
    """Gives the groups that fail, and why."""
    for group, (start, stop) in enumerate(groups.tolist()):
        chunk = tf.constant(list(records[start:stop]), tf.string)
        try:
            for _ in function(_chunks(chunk)):
                pass
        except tf.errors.OpError as error:
            yield group, reason_of(error)


def _chunks(chunk: tf.Tensor) -> tf.data.Dataset:
    # The spec of `records.record_dataset`, whatever the chunk's length.
    variant = tf.data.experimental.to_variant(
        tf.data.Dataset.from_tensors(chunk)
    )
    return tf.data.experimental.from_variant(
        variant, tf.TensorSpec([None], tf.string)
    )


def reason_of(error: Any) -> str:
    """Returns a kernel's message without what TensorFlow puts around it.

    Args:
        error: A `tf.errors.OpError`.
    """
    return " ".join(_NOISE.sub("", error.message).split())
