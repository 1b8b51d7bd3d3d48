"""A plain Keras script, and the same one moved over by three lines."""

import difflib
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.end_to_end

_ROOT = pathlib.Path(__file__).parents[2]
_EXAMPLES = _ROOT / "scripts" / "examples"
_PLAIN = _EXAMPLES / "movie_ratings.py"
_MOVED = _EXAMPLES / "movie_ratings_ps.py"
_DATA = pathlib.Path(
    os.environ.get("EK_TEST_DATA", _ROOT.parent / "shared" / "data")
)


def _error(script, ratings, *arguments):
    """Runs a script; returns the stars that it says it is off by."""
    done = subprocess.run(
        [sys.executable, str(script), str(ratings), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return float(re.search(r"held-out error: ([\d.]+) stars", done.stdout)[1])


def _on_shards(folder, options):
    """Returns the script that was moved over, with options of PSModel."""
    text = _MOVED.read_text()
    assert text.count("num_ps=2") == 1
    path = folder / "on_shards.py"
    path.write_text(text.replace("num_ps=2", f"num_ps=2, {options}"))
    return path


def test_three_lines_differ():
    lines = [p.read_text().splitlines() for p in (_PLAIN, _MOVED)]
    changed = [
        line
        for line in difflib.ndiff(*lines)
        if line[0] in "+-" and line[1:].strip()
    ]
    assert [line.split() for line in changed] == [
        ["+", "import", "elastic_keras", "as", "ek"],
        ["+", "model", "=", "ek.PSModel(model,", "num_ps=2)"],
        ["+", "model", "=", "model.to_keras()"],
    ]
    # They are the lines that the README shows.
    readme = (_ROOT / "README.md").read_text()
    assert all(f"\n{line[2:].strip()}\n" in readme for line in changed)


def test_both_are_off_by_the_same(tmp_path):
    random = np.random.default_rng(3)
    users, movies = random.integers(0, 30, 4000), random.integers(0, 50, 4000)
    taste, worth = random.normal(size=30), random.normal(size=50)
    stars = np.clip(
        np.round(2 * (3 + taste[users] + worth[movies])) / 2, 0.5, 5.0
    )
    path = tmp_path / "ratings.csv"
    rows = zip(users, movies, stars, strict=True)
    path.write_text(
        "userId,movieId,rating,timestamp\n"
        + "".join(f"{u},{m},{s},0\n" for u, m, s in rows)
    )
    plain = _error(_PLAIN, path, "--epochs=3")
    assert plain < 0.9 * stars[-400:].std()
    assert _error(_MOVED, path, "--epochs=3") == pytest.approx(plain, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "most"),
    [
        ("max_staleness=0", 1e-3),
        ("max_staleness=4", 3e-3),
        # Rows on the shards have other initial values.
        ("embedding_threshold_bytes=0", 5e-3),
        ("embedding_threshold_bytes=0, max_staleness=4", 5e-3),
    ],
)
def test_on_real_ratings(tmp_path, options, most):
    path = _DATA / "ml_latest_small" / "ratings.csv"
    if not path.exists():
        pytest.skip(f"no real data in {_DATA}")
    plain = _error(_PLAIN, path)
    assert plain < 0.91
    assert _error(_on_shards(tmp_path, options), path) == pytest.approx(
        plain, abs=most
    )
