"""Predicts the ratings that users give to movies: matrix factorization.

Takes the path of lines of user, movie, stars, time, the first of which is a
header, such as MovieLens gives out (https://grouplens.org/datasets/movielens/).
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

SEED = 1
BATCH = 256
MOST_STARS = 5.0


def read_ratings(path):
    """Returns users and movies, numbered from 0, and ratings from 0 to 1."""
    table = np.loadtxt(path, delimiter=",", skiprows=1, usecols=(0, 1, 2))
    np.random.default_rng(SEED).shuffle(table)
    _, users = np.unique(table[:, 0], return_inverse=True)
    _, movies = np.unique(table[:, 1], return_inverse=True)
    return users, movies, (table[:, 2] / MOST_STARS).astype(np.float32)


def make_model(num_users, num_movies, dim=32):
    """Makes a model of tastes: a vector and a bias for each of both."""
    user = keras.Input((), dtype="int64", name="user")
    movie = keras.Input((), dtype="int64", name="movie")
    match = keras.layers.Dot(axes=1)(
        [
            keras.layers.Embedding(num_users, dim, name="users")(user),
            keras.layers.Embedding(num_movies, dim, name="movies")(movie),
        ]
    )
    biases = [
        keras.layers.Embedding(num_users, 1, name="user_biases")(user),
        keras.layers.Embedding(num_movies, 1, name="movie_biases")(movie),
    ]
    total = keras.layers.Add()([match, *biases])
    rating = keras.layers.Activation("sigmoid", name="rating")(total)
    return keras.Model({"user": user, "movie": movie}, rating)


def main():
    """Trains on nine tenths of the ratings, and tries the model on the rest."""
    parser = argparse.ArgumentParser()
    parser.add_argument("ratings")
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    users, movies, ratings = read_ratings(arguments.ratings)
    data = tf.data.Dataset.from_tensor_slices(
        ({"user": users, "movie": movies}, ratings[:, np.newaxis])
    )
    split = len(ratings) * 9 // 10
    training = data.take(split).batch(BATCH)
    held_out = data.skip(split).batch(BATCH)

    keras.utils.set_random_seed(SEED)
    model = make_model(int(users.max()) + 1, int(movies.max()) + 1)
    model.compile(
        optimizer=keras.optimizers.Adagrad(3.0),
        loss="binary_crossentropy",
        metrics=[keras.metrics.RootMeanSquaredError(name="rmse")],
    )
    model.fit(
        training,
        epochs=arguments.epochs,
        validation_data=held_out,
        verbose=2,
    )
    found = model.evaluate(held_out, verbose=0, return_dict=True)
    print(f"held-out error: {MOST_STARS * found['rmse']:.4f} stars")


if __name__ == "__main__":
    main()
