"""Criteo's lines as tensors: what the models of this folder share.

A line holds, separated by tabs, the label (1 for a click), 13 counts and 26
categorical values; any of them may be missing. See README.md.
"""

import tensorflow as tf

NUM_INTEGERS = 13
NUM_CATEGORIES = 26
_DEFAULTS = [[0.0]] + [[float("nan")]] * NUM_INTEGERS + [[""]] * NUM_CATEGORIES


def dataset_fn(dataset, mode, metadata):
    """Makes batches of (features, labels) of lines.

    Features are `numbers`, float32 `(batch, 13)`, and `ids`, int64
    `(batch, 26)`. Lines are parsed a batch at a time, which is many times
    faster than one by one.
    """
    batches = dataset.batch(metadata.minibatch_size)
    return batches.map(_parse, num_parallel_calls=2)


def _parse(lines):
    columns = tf.io.decode_csv(
        lines, _DEFAULTS, field_delim="\t", use_quote_delim=False
    )
    label, integers = columns[0], columns[1 : 1 + NUM_INTEGERS]
    counts = tf.stack(integers, axis=1)
    numbers = tf.where(
        tf.math.is_nan(counts), -1.0, 0.25 * tf.math.log1p(tf.nn.relu(counts))
    )
    # One table serves all features: the last part of an id is the feature's
    # number, so equal values of two features have different rows. A missing
    # value is a value, too.
    hashes = [
        tf.strings.to_hash_bucket_fast(column, 2**58)
        for column in columns[1 + NUM_INTEGERS :]
    ]
    feature = tf.range(NUM_CATEGORIES, dtype=tf.int64)
    ids = tf.stack(hashes, axis=1) * NUM_CATEGORIES + feature
    return {"numbers": numbers, "ids": ids}, label[:, tf.newaxis]
