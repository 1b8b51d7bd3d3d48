"""Makes NAME.csv and NAME_validation.csv: clicks in a made-up world.

python NAME_data.py --rows=100000
"""

import argparse
import csv
import pathlib

import numpy as np

USERS, ITEMS = 400, 150
FOLDER = pathlib.Path(__file__).parent


def write(path, rows, seed):
    """Writes a CSV file; the same arguments give the same bytes.

    Args:
        path: The file.
        rows: Its lines, below the header.
        seed: Seed of the lines; the world is the same for all.
    """
    # How easily users click, how good items are, and when people click.
    world = np.random.default_rng(0)
    mood = world.normal(size=USERS)
    appeal = world.normal(size=ITEMS)
    evening = np.cos((np.arange(24) - 20) * np.pi / 12)

    random = np.random.default_rng(seed)
    # A few users and items make most of the lines, as in real logs.
    user = (USERS * random.random(rows) ** 2).astype(int)
    item = (ITEMS * random.random(rows) ** 2).astype(int)
    hour = random.integers(0, 24, rows)
    price = random.lognormal(3.0, 0.8, rows)
    logit = (
        2.0 * mood[user]
        + 2.0 * appeal[item]
        + evening[hour]
        - (np.log(price) - 3.0)
    )
    clicked = random.random(rows) < 1.0 / (1.0 + np.exp(-logit))
    known = random.random(rows) < 0.95
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["clicked", "user", "item", "hour", "price"])
        for i in range(rows):
            writer.writerow(
                [
                    int(clicked[i]),
                    f"u{user[i]:03}",
                    f"i{item[i]:03}",
                    hour[i],
                    f"{price[i]:.2f}" if known[i] else "",
                ]
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4000)
    arguments = parser.parse_args()
    write(FOLDER / "NAME.csv", arguments.rows, seed=0)
    write(FOLDER / "NAME_validation.csv", arguments.rows // 4, seed=1)
