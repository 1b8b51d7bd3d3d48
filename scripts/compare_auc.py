"""Sets a job's AUC beside the best that its synthetic data allow.

python scripts/compare_auc.py --result=RESULT.json --planted=PLANTED.json
"""

import argparse
import json
import pathlib
from typing import Any


def main() -> None:
    """Prints one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--result", required=True, help="A job's result.json.")
    parser.add_argument("--planted", required=True, help="From make_data.")
    arguments = parser.parse_args()
    evaluation = _read(arguments.result).get("evaluation", {})
    best = _read(arguments.planted)["best_auc"]
    if "auc" not in evaluation:
        print("The job evaluated no metric named auc.")
        return
    print(
        f"AUC {evaluation['auc']:.4f}, best reachable {best:.4f}, "
        f"difference {evaluation['auc'] - best:+.4f}"
    )


def _read(path: str) -> dict[str, Any]:
    return json.loads(pathlib.Path(path).read_text())


if __name__ == "__main__":
    main()
