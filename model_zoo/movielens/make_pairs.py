"""Counts how often two movies are liked by the same user, of MovieLens.

    python -m model_zoo.movielens.make_pairs ml-latest-small/ratings.csv data

Writes data/train.csv and data/validation.csv. A line is for a pair of movies:
both ids, and the logarithm of how many times as many users like both as by
chance; 0 where they are not more. Chance is that of users of the same time,
else all movies of 1996 would go together.
"""

import argparse
import pathlib

import numpy as np

LEAST_STARS = 4.0


def read_likes(
    path: pathlib.Path, least_likes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Reads who likes what: ratings of at least four stars.

    Args:
        path: MovieLens's ratings.csv.
        least_likes: Movies that fewer users like are left out.

    Returns:
        bool, `(users, movies)`, the users who rated first in front; and the
        movies' ids.
    """
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    likes = table[table[:, 2] >= LEAST_STARS]
    ids, counts = np.unique(likes[:, 1], return_counts=True)
    ids = ids[counts >= least_likes]
    likes = likes[np.isin(likes[:, 1], ids)]
    users, user = np.unique(likes[:, 0], return_inverse=True)
    times = np.full(len(users), np.inf)
    np.minimum.at(times, user, likes[:, 3])
    liked = np.zeros((len(users), len(ids)), bool)
    liked[user, np.searchsorted(ids, likes[:, 1])] = True
    return liked[np.argsort(times, kind="stable")], ids.astype(np.int64)


def affinities(liked: np.ndarray, periods: int) -> np.ndarray:
    """Returns positive pointwise mutual information of each two movies.

    Args:
        liked: What `read_likes` returned.
        periods: Parts of as many users, one after the other in time, each
            with a chance of its own.

    Returns:
        float64, `(movies, movies)`, symmetric.
    """
    size = liked.shape[1]
    both, chance = np.zeros((size, size)), np.zeros((size, size))
    for part in np.array_split(liked.astype(np.float64), periods):
        together = part.T @ part
        np.fill_diagonal(together, 0)
        both += together
        each = together.sum(axis=0)
        chance += np.outer(each, each) / max(each.sum(), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.log(both / chance)
    return np.where(both > 0, np.maximum(information, 0), 0)


def main() -> None:
    """Writes the pairs, shuffled: a twentieth of them to validate on."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("ratings", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--least_likes", type=int, default=30)
    parser.add_argument("--periods", type=int, default=20)
    arguments = parser.parse_args()
    liked, ids = read_likes(arguments.ratings, arguments.least_likes)
    values = affinities(liked, arguments.periods)
    one, other = np.nonzero(~np.eye(len(ids), dtype=bool))
    order = np.random.default_rng(0).permutation(len(one))
    one, other = one[order], other[order]
    lines = [
        f"{ids[i]},{ids[j]},{values[i, j]:.4f}\n"
        for i, j in zip(one, other, strict=True)
    ]
    arguments.output.mkdir(parents=True, exist_ok=True)
    held_out = len(lines) // 20
    for name, part in (
        ("validation", lines[:held_out]),
        ("train", lines[held_out:]),
    ):
        path = arguments.output / f"{name}.csv"
        path.write_text("".join(part))
        print(f"{path}: {len(part):,} pairs of {len(ids):,} movies")


if __name__ == "__main__":
    main()
