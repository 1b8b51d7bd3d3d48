"""DeepFM (Guo et al. 2017) on Criteo's data, with one table for all features.

A row holds a feature value's linear weight and, behind it, its factors.
"""

import keras
from keras import layers, ops

import elastic_keras as ek

from .features import NUM_CATEGORIES, NUM_INTEGERS, dataset_fn  # noqa: F401


@keras.saving.register_keras_serializable(package="criteo")
class FactorizationMachine(layers.Layer):
    """Sums the inner products of all pairs of vectors `(batch, n, dim)`."""

    def call(self, vectors):
        square_of_sum = ops.square(ops.sum(vectors, axis=1))
        sum_of_squares = ops.sum(ops.square(vectors), axis=1)
        both = square_of_sum - sum_of_squares
        return 0.5 * ops.sum(both, axis=1, keepdims=True)


def custom_model(dim=16, hidden=(256, 128, 64)):
    numbers = keras.Input((NUM_INTEGERS,), name="numbers")
    ids = keras.Input((NUM_CATEGORIES,), dtype="int64", name="ids")
    rows = ek.layers.Embedding(
        1 + dim, keras.initializers.RandomNormal(stddev=0.01), name="rows"
    )(ids)
    weights, factors = rows[:, :, 0], rows[:, :, 1:]
    deep = layers.Concatenate()([numbers, layers.Flatten()(factors)])
    for units in hidden:
        deep = layers.Dense(units, activation="relu")(deep)
    logit = layers.Add()(
        [
            layers.Dense(1)(numbers),
            ops.sum(weights, axis=1, keepdims=True),
            FactorizationMachine()(factors),
            layers.Dense(1)(deep),
        ]
    )
    click = layers.Activation("sigmoid", name="click")(logit)
    return keras.Model({"numbers": numbers, "ids": ids}, click)


loss = keras.losses.BinaryCrossentropy()


def optimizer():
    # Stale gradients overshoot in the first steps; clipping holds them back.
    return keras.optimizers.Adagrad(
        0.02, initial_accumulator_value=1e-3, global_clipnorm=0.2
    )


def eval_metrics_fn():
    return {"auc": keras.metrics.AUC(num_thresholds=1000)}
