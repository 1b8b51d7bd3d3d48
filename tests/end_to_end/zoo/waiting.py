"""`clicks`, but each worker waits for a file after a few of its steps."""

import os
import pathlib
import threading

import keras
import tensorflow as tf

from .clicks import (  # noqa: F401
    custom_model,
    dataset_fn,
    eval_metrics_fn,
    optimizer,
)

_cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
_MARKER = pathlib.Path(os.environ["EK_TEST_MARKER"])
_steps = []


def _wait(labels):
    _steps.append(len(labels))
    while len(_steps) > 8 and not _MARKER.exists():
        threading.Event().wait(0.05)
    return labels


def loss(labels, predictions):
    shape = labels.shape
    labels = tf.numpy_function(_wait, [labels], labels.dtype)
    return _cross_entropy(tf.ensure_shape(labels, shape), predictions)
