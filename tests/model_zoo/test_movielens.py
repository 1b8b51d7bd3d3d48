"""The module of movies that go together, and the maker of its data."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from elastic_keras.config import DataOptions, ModelOptions
from elastic_keras.data.pipeline import BatchPipeline
from elastic_keras.data.reader import open_reader
from elastic_keras.zoo.module import load
from model_zoo.movielens.make_pairs import affinities, read_likes
from scripts.neighbours import read_titles

_ROOT = pathlib.Path(__file__).parents[2]
_DATA = pathlib.Path(
    os.environ.get("EK_TEST_DATA", _ROOT.parent / "shared" / "data")
)
_RATINGS = """\
userId,movieId,rating,timestamp
7,10,4.0,300
7,20,5.0,310
7,30,3.5,320
5,20,4.5,100
5,40,4.0,110
6,20,4.0,200
6,10,4.5,190
"""


def test_likes_are_in_the_order_of_time(tmp_path):
    (tmp_path / "ratings.csv").write_text(_RATINGS)
    liked, ids = read_likes(tmp_path / "ratings.csv", 2)
    # Movie 40 is liked once, movie 30 not at all.
    assert ids.tolist() == [10, 20]
    # Users 5, 6 and 7.
    assert liked.tolist() == [[False, True], [True, True], [True, True]]


def test_affinity_is_more_than_chance():
    # Movies 0 and 1 go together, so do 2 and 3.
    liked = np.array([[1, 1, 0, 0], [0, 0, 1, 1]] * 3, bool)
    values = affinities(liked, 1)
    expected = np.zeros((4, 4))
    # Of 12 ordered pairs 3 are (0, 1), where chance gives 3 * 3 / 12.
    expected[0, 1] = expected[1, 0] = np.log(4)
    expected[2, 3] = expected[3, 2] = np.log(4)
    np.testing.assert_allclose(values, expected)


def test_a_time_of_its_own_is_no_affinity():
    # Everyone likes all that there is at their time.
    liked = np.array([[1, 1, 1, 0, 0, 0]] * 4 + [[0, 0, 0, 1, 1, 1]] * 4, bool)
    together = affinities(liked, 1)[0, 1]
    assert affinities(liked, 2)[0, 1] == pytest.approx(together - np.log(2))


def test_the_model_takes_a_batch(tmp_path):
    (tmp_path / "train.csv").write_text("10,20,1.5\n20,10,1.5\n10,30,0.0\n")
    zoo = load(
        ModelOptions(
            model_zoo=str(_ROOT / "model_zoo"),
            model_def="movielens.neighbours",
            model_params="dim=4",
        )
    )
    reader = open_reader(str(tmp_path / "train.csv"), DataOptions())
    (record_range,) = reader.ranges(100)
    pipeline = BatchPipeline(zoo.dataset_fn, "evaluation", reader.metadata, 2)
    batch, _ = list(pipeline(reader.dataset(record_range)[0]))
    features, labels, _ = batch
    assert features["movie"].numpy().tolist() == [10, 20]
    assert features["partner"].numpy().tolist() == [20, 10]
    assert labels.numpy().tolist() == [[1.5], [1.5]]
    assert zoo.custom_model()(features).shape == labels.shape
    assert set(zoo.eval_metrics_fn()) == {"mae"}


def _rows(table):
    """Returns the titles of each row of a table in Markdown, by its first."""
    rows = re.findall(r"^\| (.*?) \| (.* \d\.\d\d) \|$", table, re.MULTILINE)
    return {
        title: re.split(r" \d\.\d\d(?:; |$)", nearest)[:5]
        for title, nearest in rows
    }


@pytest.mark.slow
@pytest.mark.end_to_end
def test_the_page_is_what_its_commands_give(tmp_path):
    source = _DATA / "ml_latest_small"
    if not source.is_dir():
        pytest.skip(f"no real data in {_DATA}")
    (tmp_path / "ml-latest-small").symlink_to(source)
    for name in ("model_zoo", "scripts"):
        (tmp_path / name).symlink_to(_ROOT / name)
    page = (_ROOT / "docs" / "neighbours.md").read_text()
    (commands,) = re.findall(
        r"^```shell elsewhere\n(python .*?)^```$", page, re.M | re.S
    )
    written = _rows(page)
    assert len(written) == 5
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    for name, run in (
        ("python", ""),
        ("elastic_keras", "-m elastic_keras.cli"),
    ):
        command = bin_folder / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {run} "$@"\n')
        command.chmod(0o755)
    path = f"{bin_folder}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-e", "-c", commands],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = _rows(done.stdout)
    assert found.keys() == written.keys()
    # Another processor adds up in another order.
    for title, nearest in written.items():
        assert len(set(nearest) & set(found[title])) >= 4, title
    titles = set(read_titles(source / "movies.csv").values())
    assert all(set(nearest) <= titles for nearest in written.values())
