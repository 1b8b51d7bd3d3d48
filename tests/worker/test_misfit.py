import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.worker.misfit import misfit_explained
from elastic_keras.worker.model import prepare


def prepared(model, features):
    return prepare(
        model,
        None,
        None,
        None,
        sample_batch=(features, np.zeros((2, 1))),
        seed=0,
        threshold_bytes=1,
    )


def test_a_missing_feature_is_explained():
    ids = keras.Input((1,), name="ids")
    age = keras.Input((1,), name="age")
    model = keras.Model(
        {"ids": ids, "age": age},
        keras.layers.Dense(1)(keras.layers.Concatenate()([ids, age])),
    )
    with pytest.raises(ConfigError) as caught:
        prepared(model, {"ids": np.ones((2, 1), np.float32)})
    message = str(caught.value)
    assert "do not fit together" in message
    assert "age" in message
    assert "Received: batches of {'ids'" in message
    assert "\n" not in message
    assert "\x1b" not in message


def test_a_wrong_width_is_explained():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    with pytest.raises(ConfigError, match=r"do not fit together.*\(None, 2\)"):
        prepared(model, np.ones((2, 2), np.float32))


def test_an_exception_in_the_users_code_is_theirs():
    class Reads(keras.Model):
        def call(self, features):
            return features["age"]

    with pytest.raises(KeyError, match="age"):
        prepared(Reads(), {"ids": np.ones((2, 1), np.float32)})
    with pytest.raises(ZeroDivisionError), misfit_explained(None):
        _ = 1 / 0


def test_errors_of_ours_and_of_ops_pass():
    with pytest.raises(ConfigError, match=r"^mine$"), misfit_explained(None):
        raise ConfigError("mine")
    error = tf.errors.InvalidArgumentError(None, None, "op")
    with pytest.raises(tf.errors.OpError), misfit_explained(None):
        raise error
