import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.worker.losses import make_loss, pick

Y = tf.constant([[1.0], [0.0], [1.0], [1.0]])
P = tf.constant([[0.9], [0.2], [0.4], [0.7]])
W = tf.constant([1.0, 0.5, 2.0, 0.0])


def per_example(labels, predictions):
    return tf.reduce_mean(tf.square(labels - predictions), axis=-1)


def per_element(labels, predictions):
    return tf.square(labels - predictions)


def scalar(labels, predictions):
    return tf.reduce_mean(tf.square(labels - predictions))


ALL = [
    scalar,
    per_example,
    per_element,
    keras.losses.MeanSquaredError(),
    keras.losses.MeanSquaredError(reduction=None),
    "mse",
]


@pytest.mark.parametrize("loss", ALL)
def test_every_form_gives_the_mean(loss):
    value = make_loss(loss)(Y, P, None)
    assert value.dtype == tf.float32
    assert float(value) == pytest.approx(float(scalar(Y, P)))


@pytest.mark.parametrize("loss", ALL[1:])
@pytest.mark.parametrize("weights", [W, W[:, None], tf.cast(W, tf.float64)])
def test_weights_count_as_in_keras(loss, weights):
    expected = keras.losses.MeanSquaredError()(Y, P, sample_weight=W)
    value = make_loss(loss)(Y, P, weights)
    assert float(value) == pytest.approx(float(expected))


def test_a_function_may_take_the_weights_itself():
    def loss(labels, predictions, sample_weight=None):
        return tf.reduce_sum(sample_weight) + 0.0 * scalar(labels, predictions)

    assert float(make_loss(loss)(Y, P, W)) == 3.5


def test_a_scalar_cannot_be_weighted():
    with pytest.raises(ConfigError, match="Received: a scalar loss"):
        make_loss(scalar)(Y, P, W)


def test_losses_per_output_are_added_up():
    loss = make_loss({"a": "mse", "b": per_example}, ["a", "b"])
    expected = scalar(Y, P) + scalar(Y, 2 * P)
    by_name = loss({"a": Y, "b": Y}, {"a": P, "b": 2 * P}, None)
    by_position = loss([Y, Y], [P, 2 * P], None)
    assert float(by_name) == pytest.approx(float(expected))
    assert float(by_position) == pytest.approx(float(expected))
    listed = make_loss(["mse", None])([Y, Y], [P, 2 * P], None)
    assert float(listed) == pytest.approx(float(scalar(Y, P)))
    weighted = loss({"a": Y, "b": Y}, {"a": P, "b": P}, {"a": W, "b": 0 * W})
    one = keras.losses.MeanSquaredError()(Y, P, sample_weight=W)
    assert float(weighted) == pytest.approx(float(one))


def test_masked_predictions_count_as_in_keras():
    masked = tf.constant(np.ones((2, 3, 1)), tf.float32)
    masked._keras_mask = tf.constant([[True, False, True], [True, True, True]])
    labels = tf.constant(np.arange(6).reshape(2, 3, 1), tf.float32)
    loss = keras.losses.MeanSquaredError()
    assert float(make_loss(loss)(labels, masked, None)) == pytest.approx(
        (1 + 1 + 4 + 9 + 16) / 5
    )


def test_refuses_other_things():
    with pytest.raises(ConfigError, match="Received: loss of type int"):
        make_loss(3)
    with pytest.raises(ConfigError, match=r"there is \['a'\].*output 'c'"):
        pick({"a": Y}, "c", ["a"])
    with pytest.raises(ConfigError, match="output 2"):
        pick([Y, Y], 2, [])
    assert pick(Y, "only", ["only"]) is Y


@pytest.mark.parametrize("loss", [scalar, per_element])
@pytest.mark.parametrize("labels", [Y, Y[:, 0]])
@pytest.mark.parametrize("predictions", [P, P[:, 0]])
def test_labels_and_predictions_come_with_equal_rank(loss, labels, predictions):
    value = make_loss(loss)(labels, predictions, None)
    assert float(value) == pytest.approx(float(scalar(Y, P)))


def test_sequences_lose_the_axis_that_labels_lack():
    labels, predictions = tf.reshape(Y, [2, 2]), tf.reshape(P, [2, 2, 1])
    value = make_loss(per_element)(labels, predictions, None)
    assert float(value) == pytest.approx(float(scalar(Y, P)))


def _keras_value(function, labels, predictions, weights):
    """Returns the loss that Keras itself computes of a function."""
    model = keras.Sequential([keras.Input(predictions.shape[1:])])
    model.compile(loss=function)
    return float(
        model.compute_loss(y=labels, y_pred=predictions, sample_weight=weights)
    )


@pytest.mark.parametrize("weights", [None, tf.constant([1.0, 0.25])])
def test_a_function_leaves_masked_steps_out_as_in_keras(weights):
    def loss(labels, predictions):
        return keras.losses.sparse_categorical_crossentropy(labels, predictions)

    labels = tf.constant([[0, 1, 2], [2, 0, 0]])
    logits = tf.random.stateless_uniform([2, 3, 3], seed=[1, 2])
    predictions = tf.nn.softmax(logits)
    predictions._keras_mask = tf.constant([[True, True, False], [True] * 3])
    if weights is not None:
        weights = weights[:, None]
    value = make_loss(loss)(labels, predictions, weights)
    expected = _keras_value(loss, labels, predictions, weights)
    assert float(value) == pytest.approx(expected, rel=1e-5)
    unmasked = make_loss(loss)(labels, tf.identity(predictions), weights)
    assert float(unmasked) != pytest.approx(expected, rel=1e-2)
