"""Wide & Deep (Cheng et al. 2016) on the Adult census data.

A line holds 14 features and the label, separated by a comma and a space;
see README.md. The wide part sees each categorical value and some pairs of
them, the deep part sees rows of the values and the numbers.
"""

import keras
import tensorflow as tf
from keras import layers

import elastic_keras as ek

_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
)
# Mean and standard deviation; the skewed ones after log(1 + x).
_NUMBERS = {
    "age": (38.6, 13.7),
    "education_num": (10.1, 2.6),
    "capital_gain": (0.73, 2.45),
    "capital_loss": (0.35, 1.6),
    "hours_per_week": (40.4, 12.4),
}
_LOGARITHMIC = ("capital_gain", "capital_loss")
_CATEGORIES = (
    "workclass",
    "education",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native_country",
)
_CROSSED = (
    ("education", "occupation"),
    ("marital_status", "occupation"),
    ("workclass", "occupation"),
    ("relationship", "sex"),
)


def dataset_fn(dataset, mode, metadata):
    # adult.test begins with a comment; both files may end in an empty line.
    lines = dataset.filter(
        lambda line: (
            tf.strings.length(line) > 0 and tf.strings.substr(line, 0, 1) != "|"
        )
    )
    return lines.batch(metadata.minibatch_size).map(_parse)


def _parse(lines):
    # Numbers are read as text, too: a space precedes them.
    values = tf.io.decode_csv(lines, [[""]] * len(_COLUMNS))
    columns = {
        name: tf.strings.strip(value)
        for name, value in zip(_COLUMNS, values, strict=True)
    }
    numbers = []
    for name, (mean, deviation) in _NUMBERS.items():
        number = tf.strings.to_number(columns[name])
        if name in _LOGARITHMIC:
            number = tf.math.log1p(number)
        numbers.append((number - mean) / deviation)
    # A missing value, "?", is a value like any other.
    single = [_ids(name, columns[name]) for name in _CATEGORIES]
    crossed = [
        _ids(f"{a} {b}", tf.strings.join([columns[a], columns[b]], "|"))
        for a, b in _CROSSED
    ]
    features = {
        "numbers": tf.stack(numbers, axis=1),
        "deep_ids": tf.stack(single, axis=1),
        "wide_ids": tf.stack(single + crossed, axis=1),
    }
    # Labels of adult.test end in a full stop.
    label = tf.strings.regex_full_match(columns["income"], ">50K.?")
    return features, tf.cast(label, tf.float32)[:, tf.newaxis]


def _ids(feature, values):
    return tf.strings.to_hash_bucket_fast(
        tf.strings.join([feature, values], "="), 2**63 - 1
    )


def custom_model(dim=8, hidden=(64, 32)):
    numbers = keras.Input((len(_NUMBERS),), name="numbers")
    deep_ids = keras.Input((len(_CATEGORIES),), dtype="int64", name="deep_ids")
    wide_ids = keras.Input(
        (len(_CATEGORIES) + len(_CROSSED),), dtype="int64", name="wide_ids"
    )
    wide = ek.layers.Embedding(1, "zeros", combiner="sum", name="wide")
    rows = ek.layers.Embedding(dim, "uniform", name="deep")
    deep = layers.Concatenate()([numbers, layers.Flatten()(rows(deep_ids))])
    for units in hidden:
        deep = layers.Dense(units, activation="relu")(deep)
    logit = layers.Add()([wide(wide_ids), layers.Dense(1)(deep)])
    income = layers.Activation("sigmoid", name="income")(logit)
    return keras.Model(
        {"numbers": numbers, "deep_ids": deep_ids, "wide_ids": wide_ids},
        income,
    )


loss = keras.losses.BinaryCrossentropy()


def optimizer():
    return keras.optimizers.Adagrad(0.05)


def eval_metrics_fn():
    return {
        "auc": keras.metrics.AUC(num_thresholds=1000),
        "accuracy": keras.metrics.BinaryAccuracy(),
    }
