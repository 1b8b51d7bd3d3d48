import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.layers import Embedding
from elastic_keras.worker.model import prepare

FEATURES = np.array([[1, 2], [3, 4]])
LABELS = np.zeros((2, 1), np.float32)


def model():
    """Two heads over one table, and a layer that only regularizes."""
    ids = keras.Input((2,), dtype="int64")
    rows = keras.layers.Flatten()(Embedding(3, name="rows")(ids))
    used = keras.layers.Dense(1, name="used")(rows)
    unused = keras.layers.Dense(1, name="unused")(rows)
    kept_small = keras.layers.Dense(
        1, use_bias=False, kernel_regularizer="l2", name="kept_small"
    )(rows)
    return keras.Model(ids, [used, unused, kept_small])


def first_only(labels, predictions):
    return tf.square(labels - predictions[0])


def rates(optimizer, loss=first_only):
    """Returns the learning rate of each dense parameter by its layer."""
    signature = prepare(
        model(),
        loss,
        optimizer,
        None,
        sample_batch=(FEATURES, LABELS),
        seed=0,
        threshold_bytes=1 << 20,
    ).signature
    return {
        spec.name: signature.optimizers[spec.optimizer].learning_rate
        for spec in signature.dense
    }


@pytest.mark.parametrize(
    "optimizer",
    [
        keras.optimizers.AdamW(0.5),
        keras.optimizers.SGD(0.5, weight_decay=0.1),
        keras.optimizers.Ftrl(0.5),
        keras.optimizers.LossScaleOptimizer(keras.optimizers.Ftrl(0.5)),
    ],
)
def test_what_the_loss_does_not_reach_stays_as_in_keras(optimizer):
    assert rates(optimizer) == {
        "used/kernel": 0.5,
        "used/bias": 0.5,
        "unused/kernel": 0.0,
        "unused/bias": 0.0,
        "kept_small/kernel": 0.5,
    }


def test_nothing_is_traced_where_a_zero_moves_nothing():
    def loss(labels, predictions):
        raise AssertionError

    assert set(rates(keras.optimizers.Adam(0.5), loss).values()) == {0.5}


def test_a_loss_that_raises_is_the_first_step_s_business():
    def loss(labels, predictions):
        raise ValueError("mine")

    assert set(rates(keras.optimizers.AdamW(0.5), loss).values()) == {0.5}
