"""Keras's own TensorBoard callback: what is made of it before it runs."""

import keras
import pytest

from elastic_keras.config import ConfigError
from elastic_keras.worker.tensorboard import (
    fit_tensorboard,
    needs_each_batch,
)


def test_without_a_folder_of_its_own_it_writes_beside_the_job():
    callback = keras.callbacks.TensorBoard()
    fit_tensorboard([keras.callbacks.History(), callback], ["a"], "/job")
    assert callback.log_dir == "/job/keras"


def test_a_folder_of_its_own_stays():
    callback = keras.callbacks.TensorBoard("mine/logs")
    fit_tensorboard([callback], ["a"], "/job")
    assert callback.log_dir == "mine/logs"


def test_rows_are_not_to_be_saved_with_the_model():
    callback = keras.callbacks.TensorBoard(embeddings_freq=2)
    with pytest.raises(ConfigError, match="--projector_tables shows them"):
        fit_tensorboard([callback], ["users"], "/job")
    fit_tensorboard([callback], [], "/job")


class _Derived(keras.callbacks.TensorBoard):
    pass


def test_who_needs_each_batch():
    assert needs_each_batch(keras.callbacks.History())
    assert not needs_each_batch(keras.callbacks.TensorBoard())
    assert needs_each_batch(keras.callbacks.TensorBoard(update_freq=10))
    assert needs_each_batch(keras.callbacks.TensorBoard(profile_batch=(2, 3)))
    assert needs_each_batch(_Derived())
