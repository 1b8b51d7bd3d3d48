"""Models of every kind that are exported in tests."""

import dataclasses
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from tests.exports import stand_ins

_RANDOM = np.random.default_rng(1)
# Some of them negative, or as large as ids get.
KNOWN = np.unique(
    np.concatenate(
        [
            np.arange(0, 40),
            _RANDOM.integers(-(2**62), 2**62, 60),
            [-(2**63), 2**63 - 1, -1],
        ]
    )
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A module and a batch for it.

    Args:
        module: Its text.
        features: The batch.
        known: Ids with rows.
        threshold: `--embedding_threshold_bytes`.
        spec: Spec of the features, if the batch does not tell.
    """

    module: str
    features: Any
    known: np.ndarray = dataclasses.field(default_factory=lambda: KNOWN)
    threshold: int = 1 << 21
    spec: Any = None

    def train(self, folder: pathlib.Path) -> stand_ins.Trained:
        """Makes a trained model of it."""
        return stand_ins.train(
            folder,
            self.module,
            self.features,
            known=self.known,
            threshold=self.threshold,
            spec=self.spec,
        )


def named(features: Any) -> dict[str, np.ndarray]:
    """Returns features as the arrays that a signature takes."""
    if isinstance(features, tuple):
        features = dict(zip(("user", "words"), features, strict=True))
    if not isinstance(features, dict):
        features = {"inputs": features}
    result = {}
    for name, value in features.items():
        if isinstance(value, tf.RaggedTensor):
            result[name] = value.flat_values.numpy()
            result[f"{name}_row_splits"] = value.row_splits.numpy()
        elif isinstance(value, tf.SparseTensor):
            for part in ("indices", "values", "dense_shape"):
                result[f"{name}_{part}"] = getattr(value, part).numpy()
        else:
            array = value.numpy()
            result[name] = array.astype("S") if array.dtype == "O" else array
    return result


def _ids(shape: tuple[int, ...], seed: int = 2) -> tf.Tensor:
    """Returns ids, of which about half have no row."""
    random = np.random.default_rng(seed)
    half = random.random(shape) < 0.5
    unknown = random.integers(-(2**63), 2**63 - 1, shape)
    return tf.constant(np.where(half, random.choice(KNOWN, shape), unknown))


def _ragged(seed: int = 3) -> tf.RaggedTensor:
    lengths = [3, 0, 5, 1]
    return tf.RaggedTensor.from_row_lengths(_ids((9,), seed), lengths)


DEEPFM = """
    def custom_model():
        numbers = keras.Input((3,), name="numbers")
        ids = keras.Input((4,), dtype="int64", name="ids")
        rows = ek.layers.Embedding(
            1 + 5, keras.initializers.RandomNormal(stddev=0.5), name="rows"
        )(ids)
        weights, factors = rows[:, :, 0], rows[:, :, 1:]
        deep = keras.layers.Flatten()(factors)
        deep = keras.layers.Concatenate()([numbers, deep])
        deep = keras.layers.Dense(8, activation="relu")(deep)
        square = keras.ops.square(keras.ops.sum(factors, axis=1))
        squares = keras.ops.sum(keras.ops.square(factors), axis=1)
        logit = keras.layers.Add()([
            keras.layers.Dense(1)(deep),
            keras.ops.sum(weights, axis=1, keepdims=True),
            keras.ops.sum(square - squares, axis=1, keepdims=True),
        ])
        click = keras.layers.Activation("sigmoid", name="click")(logit)
        return keras.Model({"numbers": numbers, "ids": ids}, click)
"""
SWAPPED = """
    def custom_model():
        user = keras.Input((), dtype="int64", name="user")
        words = keras.Input((6,), dtype="int32", name="words")
        a = keras.layers.Embedding(1000, 4, name="users")(user)
        b = keras.layers.Embedding(500, 3, "he_normal", mask_zero=True)(words)
        x = keras.layers.Concatenate()([a, keras.layers.LSTM(5)(b)])
        x = keras.layers.BatchNormalization()(x)
        return keras.Model([user, words], keras.layers.Dense(2)(x))
"""
SUBCLASSED = """
    class Towers(keras.Model):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.users = ek.layers.Embedding(4, "glorot_uniform", name="users")
            self.items = ek.layers.Embedding(
                4, keras.initializers.TruncatedNormal(), name="items")
            self.top = keras.layers.Dense(1)

        def call(self, features, training=False):
            user = self.users(features["user"])
            item = self.items(features["item"])
            if training:
                item = item * 2.0
            return self.top(user * item)

    def custom_model():
        return Towers()
"""
RAGGED = """
    def custom_model():
        tags = keras.Input((None,), dtype="int64", ragged=True, name="tags")
        movie = keras.Input((), dtype="int64", name="sum_ids")
        bags = [
            ek.layers.Embedding(3, combiner=each, name=each)(tags)
            for each in ("sum", "mean", "sqrtn")
        ]
        one = ek.layers.Embedding(3, "normal", name="movie_rows")(movie)
        x = keras.layers.Concatenate()([*bags, one])
        return keras.Model({"tags": tags, "movie": movie},
                           keras.layers.Dense(2, name="stars")(x))
"""
BAGS = """
    def custom_model():
        tags = keras.Input((5,), dtype="int64", name="tags")
        weights = keras.Input((5,), name="weights")
        bags = [
            ek.layers.Embedding(
                3, combiner=each, mask_zero=zero, name=f"{each}_{zero}"
            )(tags, weights)
            for each in ("sum", "mean", "sqrtn") for zero in (True, False)
        ]
        x = keras.layers.Concatenate()(bags)
        return keras.Model({"tags": tags, "weights": weights},
                           keras.layers.Dense(2)(x))
"""
MASKED = """
    def custom_model():
        return keras.Sequential([
            keras.Input((None,), dtype="int64"),
            ek.layers.Embedding(4, "normal", mask_zero=True, name="words"),
            keras.layers.LSTM(3),
            keras.layers.Dense(1),
        ])
"""
SPARSE = """
    def custom_model():
        tags = keras.Input((50,), dtype="int64", sparse=True, name="tags")
        x = ek.layers.Embedding(3, "normal", combiner="mean", name="t")(tags)
        return keras.Model({"tags": tags}, keras.layers.Dense(1)(x))
"""
STRINGS = """
    def custom_model():
        word = keras.Input((3,), dtype="string", name="word")
        known = keras.layers.StringLookup(vocabulary=["a", "b"])(word)
        hashed = keras.layers.Hashing(10**6)(word)
        rows = ek.layers.Embedding(4, "ones", name="words")
        x = rows(known) + rows(hashed)
        x = keras.layers.Flatten()(x)
        return keras.Model({"word": word}, keras.layers.Dense(1)(x))
"""
SHARED = """
    def custom_model():
        movie = keras.Input((), dtype="int64", name="movie")
        seen = keras.Input((None,), dtype="int64", name="seen")
        rows = ek.layers.Embedding(4, "normal", name="movies")
        inside = keras.Sequential(
            [ek.layers.Embedding(4, name="inner"), keras.layers.Dense(4)],
            name="tower",
        )
        x = keras.ops.sum(rows(seen), axis=1) * inside(movie) + rows(movie)
        return keras.Model({"movie": movie, "seen": seen},
                           keras.layers.Dense(1)(x))
"""

CASES = {
    "deepfm": Case(
        DEEPFM,
        {
            "numbers": tf.constant(_RANDOM.normal(size=(9, 3)), tf.float32),
            "ids": _ids((9, 4)),
        },
    ),
    "swapped": Case(
        SWAPPED,
        (
            tf.constant(_RANDOM.integers(0, 1000, 9)),
            tf.constant(_RANDOM.integers(0, 50, (9, 6)), tf.int32),
        ),
        known=np.arange(0, 100, 3),
        threshold=1,
    ),
    "subclassed": Case(SUBCLASSED, {"user": _ids((9,)), "item": _ids((9,), 5)}),
    "ragged": Case(RAGGED, {"tags": _ragged(), "movie": _ids((4,))}),
    "bags": Case(
        BAGS,
        {
            "tags": tf.constant(_RANDOM.integers(0, 60, (9, 5))),
            "weights": tf.constant(_RANDOM.random((9, 5)), tf.float32),
        },
    ),
    "masked": Case(
        MASKED,
        tf.constant([[5, 70, 6, 0], [1, 0, 0, 0], [0, 0, 99, 2]], tf.int64),
        spec=tf.TensorSpec([None, None], tf.int64),
    ),
    "sparse": Case(
        SPARSE,
        {
            "tags": tf.sparse.SparseTensor(
                [[0, 1], [0, 9], [2, 0]], [5, 77, -3], [3, 50]
            )
        },
    ),
    "strings": Case(
        STRINGS,
        {"word": tf.constant([["a", "b", "c"], ["d", "a", "x"]])},
    ),
    "shared": Case(
        SHARED,
        {"movie": _ids((3,)), "seen": _ids((3, 4), 7)},
        spec={
            "movie": tf.TensorSpec([None], tf.int64),
            "seen": tf.TensorSpec([None, None], tf.int64),
        },
    ),
    "untrained": Case(
        DEEPFM,
        {
            "numbers": tf.constant(_RANDOM.normal(size=(9, 3)), tf.float32),
            "ids": _ids((9, 4)),
        },
        known=np.empty(0, np.int64),
    ),
}
NAMES = sorted(CASES)
