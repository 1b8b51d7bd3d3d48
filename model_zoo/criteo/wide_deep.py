"""Wide & Deep (Cheng et al. 2016) on Criteo's data.

The wide table has an optimizer of its own: FTRL, as in the paper.
"""

import keras
from keras import layers

import elastic_keras as ek

from .features import NUM_CATEGORIES, NUM_INTEGERS, dataset_fn  # noqa: F401


def custom_model(dim=16, hidden=(256, 128, 64)):
    numbers = keras.Input((NUM_INTEGERS,), name="numbers")
    ids = keras.Input((NUM_CATEGORIES,), dtype="int64", name="ids")
    wide = ek.layers.Embedding(
        1,
        "zeros",
        combiner="sum",
        optimizer=keras.optimizers.Ftrl(0.05),
        name="wide",
    )(ids)
    rows = ek.layers.Embedding(
        dim, keras.initializers.RandomNormal(stddev=0.01), name="deep"
    )(ids)
    deep = layers.Concatenate()([numbers, layers.Flatten()(rows)])
    for units in hidden:
        deep = layers.Dense(units, activation="relu")(deep)
    logit = layers.Add()([wide, layers.Dense(1)(deep)])
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
