"""Prints the message and the exit code of each kind of wrong use."""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from tests.end_to_end.wrong_use import CASES, Bench


def main() -> int:
    """Runs every case; returns the number of unexpected exit codes."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(pathlib.Path(folder))
        for number, case in enumerate(CASES, 1):
            done = bench.run(case)
            wrong += done.code != case.code
            mark = "" if done.code == case.code else f" (not {case.code})"
            print(f"{number:2}. {case.name}: exit code {done.code}{mark}")
            said = done.err.replace(folder, "FOLDER").strip()
            print("\n".join(f"    {line}" for line in said.splitlines()))
        bench.close()
    return wrong


if __name__ == "__main__":
    sys.exit(main())
