"""Models to compute a step of, plain and as a job's."""

import keras
import numpy as np
import tensorflow as tf

from tests.worker.reference import JobSide, matrices

layers = keras.layers
RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 20, (8, 3))
OTHER = RNG.integers(0, 30, (8, 2))
NUMBERS = RNG.normal(size=(8, 2)).astype(np.float32)
LABELS = RNG.normal(size=(8, 1)).astype(np.float32)
WEIGHTS = RNG.uniform(0.5, 2, (8,)).astype(np.float32)


def head(x):
    return layers.Dense(1, name="head")(layers.Flatten()(x))


def functional():
    ids = keras.Input((3,), dtype="int64", name="ids")
    other = keras.Input((2,), dtype="int64", name="other")
    numbers = keras.Input((2,), name="numbers")
    parts = [
        layers.Flatten()(layers.Embedding(20, 4, name="a")(ids)),
        layers.Flatten()(layers.Embedding(30, 2, name="b")(other)),
        numbers,
    ]
    x = layers.Dense(5, "tanh")(layers.Concatenate()(parts))
    return keras.Model(
        {"ids": ids, "other": other, "numbers": numbers}, head(x)
    )


def sequential():
    return keras.Sequential(
        [
            layers.Embedding(20, 4, name="a"),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.tables = [layers.Embedding(20, 4, name="a")]
        self.named = {"other": layers.Embedding(30, 4, name="b")}
        self.head = layers.Dense(1)

    def call(self, features):
        x = tf.reduce_mean(self.tables[0](features["ids"]), axis=1)
        y = tf.reduce_sum(self.named["other"](features["other"]), axis=1)
        return self.head(x * y)


def shared_twice():
    ids = keras.Input((3,), dtype="int64", name="ids")
    other = keras.Input((2,), dtype="int64", name="other")
    shared = layers.Embedding(60, 4, name="a")
    parts = [shared(ids), shared(other), shared(ids + 30)]
    return keras.Model(
        {"ids": ids, "other": other}, head(layers.Concatenate(axis=1)(parts))
    )


def nested():
    inner_ids = keras.Input((3,), dtype="int64")
    tower = keras.Model(
        inner_ids,
        layers.Dense(4)(
            layers.Flatten()(layers.Embedding(20, 4, name="a")(inner_ids))
        ),
        name="tower",
    )
    ids = keras.Input((3,), dtype="int64")
    return keras.Model(ids, head(tower(ids)))


def normalized():
    ids = keras.Input((3,), dtype="int64")
    x = layers.Flatten()(layers.Embedding(20, 4, name="a")(ids))
    x = layers.Dropout(0.4, seed=3)(layers.BatchNormalization()(x))
    return keras.Model(ids, head(x))


def regularized():
    ids = keras.Input((3,), dtype="int64")
    x = layers.Flatten()(layers.Embedding(20, 4, name="a")(ids))
    x = layers.Dense(
        3,
        kernel_regularizer=keras.regularizers.L2(0.1),
        activity_regularizer=keras.regularizers.L1(0.01),
    )(x)
    return keras.Model(ids, head(x))


class AddsLoss(keras.Model):
    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(20, 4, name="a")
        self.head = layers.Dense(1)

    def call(self, ids):
        x = tf.reduce_mean(self.table(ids), axis=1)
        self.add_loss(0.3 * tf.reduce_mean(tf.square(x)))
        return self.head(x)


def masked():
    ids = keras.Input((3,), dtype="int64")
    x = layers.Embedding(20, 4, mask_zero=True, name="a")(ids)
    return keras.Model(ids, layers.Dense(1)(layers.LSTM(3)(x)))


def without_tables():
    return keras.Sequential([layers.Dense(3, "relu"), layers.Dense(1)])


IDS_OTHER = {"ids": IDS, "other": OTHER}
CASES = {
    "functional": (functional, {**IDS_OTHER, "numbers": NUMBERS}),
    "sequential": (sequential, IDS),
    "subclassed": (Subclassed, IDS_OTHER),
    "shared_twice": (shared_twice, IDS_OTHER),
    "nested": (nested, IDS),
    "normalized": (normalized, IDS),
    "regularized": (regularized, IDS),
    "adds_loss": (AddsLoss, IDS),
    "masked": (masked, np.where(IDS < 6, 0, IDS)),
    "without_tables": (without_tables, NUMBERS),
}


def both(build, batches, **options):
    """Returns a plain model and a job's with the same weights."""
    keras.utils.set_random_seed(5)
    plain = build()
    batch = next(iter(batches))
    plain(keras.utils.unpack_x_y_sample_weight(batch)[0])
    keras.utils.set_random_seed(5)
    job = JobSide(build(), batches, matrices(plain), **options)
    dense = [
        v
        for v in plain.trainable_variables
        if not v.path.endswith("/embeddings")
    ]
    job.steps.assign_dense(
        np.concatenate(
            [np.empty(0, np.float32), *(np.ravel(v.value) for v in dense)]
        )
    )
    return plain, job
