"""`clicks`, but worker 1 takes its time for every batch, on purpose."""

import sys
import time

import tensorflow as tf

from .clicks import (  # noqa: F401
    custom_model,
    eval_metrics_fn,
    loss,
    optimizer,
)
from .clicks import dataset_fn as quick_dataset_fn

_SECONDS_A_RECORD = 0.005


def dataset_fn(dataset, mode, metadata):
    if mode != "training" or "--index=1" not in sys.argv:
        return quick_dataset_fn(dataset, mode, metadata)

    def linger(line):
        time.sleep(_SECONDS_A_RECORD)
        return line

    def slowly(line):
        line = tf.numpy_function(linger, [line], tf.string)
        return tf.ensure_shape(line, ())

    return quick_dataset_fn(dataset.map(slowly), mode, metadata)
