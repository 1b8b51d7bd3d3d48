"""Clicks from an id and a number: the module of most end-to-end tests."""

import keras
import tensorflow as tf

import elastic_keras as ek


def custom_model(dim=4):
    ids = keras.Input((), dtype="int64", name="id")
    x = keras.Input((1,), name="x")
    row = ek.layers.Embedding(dim, name="taste")(ids)
    hidden = keras.layers.Concatenate()([row, x])
    hidden = keras.layers.Dense(8, activation="relu")(hidden)
    return keras.Model({"id": ids, "x": x}, keras.layers.Dense(1)(hidden))


loss = keras.losses.BinaryCrossentropy(from_logits=True)


def optimizer():
    return keras.optimizers.Adagrad(0.1)


def dataset_fn(dataset, mode, metadata):
    # An empty default: the field must be there.
    kinds = [tf.constant([], t) for t in (tf.int32, tf.int64, tf.float32)]

    def parse(line):
        label, index, x = tf.io.decode_csv(line, kinds)
        return {"id": index, "x": x[None]}, label[None]

    return dataset.map(parse)


def eval_metrics_fn():
    return {"auc": keras.metrics.AUC(from_logits=True)}
