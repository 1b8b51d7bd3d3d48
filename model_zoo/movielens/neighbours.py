"""Which movies go together, by the users who like both: factorization.

Lines hold two movies and how much they go together, see `make_pairs.py`. It is
foretold by the movie's row in the table `movies` times the other's row in the
table `partners`, so movies with the same partners come close to one another:
`elastic_keras inspect JOB_DIR --table=movies --id=1 --neighbours=5`.
"""

import keras
import tensorflow as tf

import elastic_keras as ek


def custom_model(dim=64):
    movie = keras.Input((), dtype="int64", name="movie")
    partner = keras.Input((), dtype="int64", name="partner")
    uniform = keras.initializers.RandomUniform(-0.1, 0.1)
    rows = [
        ek.layers.Embedding(dim, embeddings_initializer=uniform, name=name)(ids)
        for name, ids in (("movies", movie), ("partners", partner))
    ]
    together = keras.layers.Dot(axes=1, name="together")(rows)
    return keras.Model({"movie": movie, "partner": partner}, together)


loss = keras.losses.MeanSquaredError()


def optimizer():
    return keras.optimizers.Adam(0.003)


def dataset_fn(dataset, mode, metadata):
    kinds = [tf.constant([], t) for t in (tf.int64, tf.int64, tf.float32)]

    def parse(lines):
        movie, partner, together = tf.io.decode_csv(lines, kinds)
        return {"movie": movie, "partner": partner}, together[:, tf.newaxis]

    return dataset.batch(metadata.minibatch_size).map(parse)


def eval_metrics_fn():
    return {"mae": keras.metrics.MeanAbsoluteError()}
