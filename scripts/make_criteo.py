"""Makes synthetic data in Criteo's format; see model_zoo/criteo/make_data.py.

python scripts/make_criteo.py --output DIR --rows N
"""

import argparse
import json
import pathlib
import sys


def main() -> None:
    """Makes data as the command line says."""
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    from model_zoo.criteo import make_data

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", required=True, help="folder to write to")
    parser.add_argument("--rows", type=int, default=make_data.ROWS)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    print(json.dumps(make_data.make(flags.output, flags.rows, flags.seed)))


if __name__ == "__main__":
    main()
