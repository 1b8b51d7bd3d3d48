"""MovieLens ratings, by plain Keras layers: large embeddings become tables."""

import keras
import tensorflow as tf


class Towers(keras.Model):
    """A user's and a movie's vectors, and how well they go together."""

    def __init__(self, dim=8, **kwargs):
        super().__init__(**kwargs)
        self.dim = dim
        self.users = keras.layers.Embedding(1000, dim, name="users")
        self.movies = keras.layers.Embedding(200_000, dim, name="movies")
        self.top = keras.layers.Dense(1)

    def call(self, features):
        user = self.users(features["user"])
        movie = self.movies(features["movie"])
        both = keras.ops.concatenate([user, movie, user * movie], axis=-1)
        return 5.0 * keras.ops.sigmoid(self.top(both))


def custom_model(dim=8):
    return Towers(dim)


loss = keras.losses.MeanSquaredError()


def optimizer():
    return keras.optimizers.Adagrad(0.1)


def dataset_fn(dataset, mode, metadata):
    kinds = [tf.constant([], t) for t in (tf.int64, tf.int64, tf.float32)]

    def parse(line):
        user, movie, stars = tf.io.decode_csv(
            line, kinds, select_cols=[0, 1, 2]
        )
        return {"user": user, "movie": movie}, stars[None]

    return dataset.map(parse)


def eval_metrics_fn():
    return {"mae": keras.metrics.MeanAbsoluteError()}
