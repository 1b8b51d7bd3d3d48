"""Clicks by a model that adds to its loss and names two outputs."""

import clicks
import keras

import elastic_keras as ek

optimizer = clicks.optimizer


def custom_model(dim=4):
    ids = keras.Input((), dtype="int64", name="id")
    x = keras.Input((1,), name="x")
    row = ek.layers.Embedding(
        dim, embeddings_regularizer=keras.regularizers.L2(0.01), name="taste"
    )(ids)
    hidden = keras.layers.Concatenate()([row, x])
    hidden = keras.layers.BatchNormalization()(hidden)
    hidden = keras.layers.Dense(
        8,
        kernel_regularizer="l2",
        activity_regularizer=keras.regularizers.L1(0.01),
    )(hidden)
    outputs = {
        "click": keras.layers.Dense(1, name="click")(hidden),
        "x_again": keras.layers.Dense(1, name="x_again")(hidden),
    }
    return keras.Model({"id": ids, "x": x}, outputs)


loss = {
    "click": keras.losses.BinaryCrossentropy(from_logits=True),
    "x_again": keras.losses.MeanSquaredError(),
}


def dataset_fn(dataset, mode, metadata):
    def with_both(features, label):
        return features, {"click": label, "x_again": features["x"]}

    return clicks.dataset_fn(dataset, mode, metadata).map(with_both)


def eval_metrics_fn():
    return {
        "click": {"auc": keras.metrics.AUC(from_logits=True)},
        "x_again": {"mae": keras.metrics.MeanAbsoluteError()},
    }
