"""Writes the nearest movies of some titles as a table in Markdown.

    python scripts/neighbours.py runs/movies ml-latest-small/movies.csv 1 260

Asks `elastic_keras inspect` for the rows that are nearest by cosine, and finds
the titles of their ids in MovieLens's movies.csv.
"""

import argparse
import csv
import json
import pathlib
import subprocess
import sys


def read_titles(path: pathlib.Path) -> dict[int, str]:
    """Returns title by id of MovieLens's movies.csv."""
    with path.open(newline="", encoding="utf-8") as file:
        return {
            int(row["movieId"]): row["title"] for row in csv.DictReader(file)
        }


def nearest(job_dir: str, movie: int, count: int) -> list[dict[str, float]]:
    """Returns `id` and `cosine` of the nearest rows of a movie's."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "elastic_keras.cli",
            "inspect",
            job_dir,
            "--table=movies",
            f"--id={movie}",
            f"--neighbours={count}",
            "--json",
        ],
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)["neighbours"]


def main() -> None:
    """Prints a line for each title."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("job_dir")
    parser.add_argument("movies", type=pathlib.Path)
    parser.add_argument("ids", type=int, nargs="+")
    parser.add_argument("--count", type=int, default=5)
    arguments = parser.parse_args()
    titles = read_titles(arguments.movies)
    print("| movie | nearest, with the cosine |\n| --- | --- |")
    for movie in arguments.ids:
        found = nearest(arguments.job_dir, movie, arguments.count)
        listed = "; ".join(
            f"{titles[int(each['id'])]} {each['cosine']:.2f}" for each in found
        )
        print(f"| {titles[movie]} | {listed} |")


if __name__ == "__main__":
    main()
