import keras
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.wire.errors import RpcError
from elastic_keras.worker.failures import at_the_start, failure
from elastic_keras.zoo import errors
from elastic_keras.zoo.errors import UserCodeError


def _raised(work):
    try:
        work()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def _users():
    raise KeyError("my own mistake")


def test_a_users_exception_is_tried_again():
    told = failure(_raised(_users), first_step=False)
    assert told["error"].startswith("Traceback (most recent call last):")
    assert told["error"].endswith("KeyError: 'my own mistake'\n")
    assert "_users" in told["error"]
    assert (told["fatal"], told["exit_code"]) == (False, 1)


def test_before_the_first_step_it_is_final():
    told = failure(_raised(_users), first_step=True)
    assert "my own mistake" in told["error"]
    assert (told["fatal"], told["exit_code"]) == (True, 1)


def test_an_error_of_a_kernel_may_be_one_of_the_data():
    error = _raised(lambda: tf.strings.to_number("no number"))
    assert failure(error, first_step=True)["fatal"] is False


def _in_a_step(layer):
    """Returns what a step raises that looks up row 24 of 20."""
    inputs = keras.Input((), dtype="int64")
    model = keras.Model(inputs, layer(inputs))
    # The lambda's frame stands for one of the step.
    step = tf.function(model.__call__, autograph=False)
    error = _raised(lambda: step(tf.constant([24])))
    return error.with_traceback(error.__traceback__.tb_next.tb_next)


def test_an_id_beyond_a_layers_rows_is_wrong_use(monkeypatch):
    # This file and pytest's would be the user's.
    monkeypatch.setattr(errors, "is_users", lambda filename: False)
    error = _in_a_step(keras.layers.Embedding(20, 4, name="taste"))
    told = failure(error, first_step=False)
    assert told["error"].startswith("A layer of the model takes ids from 0 to")
    assert "Received: id 24 at " in told["error"]
    assert "taste" in told["error"]
    assert (told["fatal"], told["exit_code"]) == (True, 2)


class _Mine(keras.layers.Layer):
    def call(self, ids):
        return tf.gather(tf.zeros((20, 4)), ids)


def test_a_kernels_error_shows_the_users_lines_alone():
    told = failure(_in_a_step(_Mine()), first_step=False)
    assert (told["fatal"], told["exit_code"]) == (False, 1)
    assert "InvalidArgumentError: Graph execution error:" in told["error"]
    assert "indices[0] = 24 is not in [0, 20)" in told["error"]
    assert f'File "{__file__}"' in told["error"]
    assert "/keras/src/" not in told["error"]


def test_wrong_use_is_said_in_one_line():
    told = failure(ConfigError("--flag is wrong."), first_step=False)
    assert told == {
        "error": "--flag is wrong.",
        "fatal": True,
        "exit_code": 2,
    }


def _without_users_frames(work):
    error = _raised(work)
    # The frames of this test stand for those of the step.
    return error.with_traceback(error.__traceback__.tb_next.tb_next)


def test_what_does_not_fit_together_is_wrong_use():
    loss = keras.losses.BinaryCrossentropy()
    error = _without_users_frames(
        lambda: loss(tf.ones((2, 3)), tf.ones((2, 1)))
    )
    told = failure(error, first_step=True, spec="SPEC")
    assert told["error"].startswith("The model, the loss, the metrics and")
    assert "(2, 3)" in told["error"]
    assert told["error"].endswith("Received: batches of SPEC")
    assert (told["fatal"], told["exit_code"]) == (True, 2)


def test_errors_that_say_enough_stay_what_they_are():
    for error in (ConfigError("x"), UserCodeError("loss", _raised(_users))):
        assert at_the_start(error) is error


def test_a_server_out_of_reach_is_nobodys_code():
    error = RpcError("UNAVAILABLE", "gone", "unix:/x", "Join")
    with pytest.raises(RpcError):
        at_the_start(error)
