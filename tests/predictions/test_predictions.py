"""Outputs of tasks become one file in the order of the input."""

import csv
import pathlib

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from elastic_keras.config import ConfigError
from elastic_keras.predictions import output, parts
from elastic_keras.predictions.parts import Parts


def _write(folder, counts, seed=0):
    """Writes a part for each count; returns the arrays of all."""
    random = np.random.default_rng(seed)
    written = []
    for task, count in enumerate(counts):
        written.append(
            {
                "score": random.random((count, 1)).astype(np.float32),
                "vector": random.random((count, 3)).astype(np.float32),
                "label": random.integers(0, 9, count),
                "word": np.array([b"x" * (task + 1)] * count, np.bytes_),
            }
        )
    # Workers finish in any order.
    for task in random.permutation(len(counts)):
        parts.write(str(folder), int(task), written[task])
    names = written[0]
    return {n: np.concatenate([each[n] for each in written]) for n in names}


@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(counts=st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_npz_holds_all_parts_in_order(tmp_path_factory, counts):
    folder = tmp_path_factory.mktemp("job")
    expected = _write(folder, counts)
    made = Parts(str(folder))
    assert made.examples == sum(counts)
    output.write(made, str(folder / "all.npz"))
    with np.load(folder / "all.npz") as found:
        assert list(found) == list(expected)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
            assert found[name].dtype == array.dtype
    assert sorted(p.name for p in folder.iterdir()) == ["all.npz", "parts"]


def test_csv_numbers_are_read_back_to_the_same_bits(tmp_path):
    expected = _write(tmp_path, [3, 2])
    output.write(Parts(str(tmp_path)), str(tmp_path / "all.csv"))
    with open(tmp_path / "all.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "score",
        "vector_0",
        "vector_1",
        "vector_2",
        "label",
        "word",
    ]
    scores = np.array([row["score"] for row in rows], np.float32)
    np.testing.assert_array_equal(scores, expected["score"][:, 0])
    vectors = np.array([row["vector_2"] for row in rows], np.float32)
    np.testing.assert_array_equal(vectors, expected["vector"][:, 2])
    assert [row["word"] for row in rows] == ["x"] * 3 + ["xx"] * 2


def test_any_name_of_an_output(tmp_path):
    # Arguments of np.savez among them.
    arrays = {
        name: np.full((2, 1), number)
        for number, name in enumerate(["file", "allow_pickle", "self", "a/b"])
    }
    parts.write(str(tmp_path), 0, arrays)
    for name in ("all.npz", "all.csv"):
        output.write(Parts(str(tmp_path)), str(tmp_path / name))
    with np.load(tmp_path / "all.npz") as found:
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name], array)
    header = (tmp_path / "all.csv").read_text().splitlines()[0]
    assert header == "file,allow_pickle,self,a/b"


def test_csv_of_a_task_without_rows(tmp_path):
    _write(tmp_path, [2, 0, 1])
    output.write(Parts(str(tmp_path)), str(tmp_path / "all.csv"))
    assert (tmp_path / "all.csv").read_text().count("\n") == 4


def test_csv_columns_have_different_names(tmp_path):
    outputs = {
        "a": np.array([[1, 2]]),
        "a_0": np.array([3]),
        "a_": np.array([[4, 5]]),
    }
    parts.write(str(tmp_path), 0, outputs)
    output.write(Parts(str(tmp_path)), str(tmp_path / "all.csv"))
    header, row = (tmp_path / "all.csv").read_text().splitlines()
    assert header == "a__0,a__1,a_0,a___0,a___1"
    assert row == "1,2,3,4,5"


def test_csv_of_bytes_that_are_no_text(tmp_path):
    parts.write(str(tmp_path), 0, {"a": np.array([b"\xff!", "ü".encode()])})
    output.write(Parts(str(tmp_path)), str(tmp_path / "all.csv"))
    text = (tmp_path / "all.csv").read_text(encoding="utf-8")
    assert text.split() == ["a", "\\xff!", "ü"]


def test_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    expected = _write(tmp_path, [3, 2])
    output.write(Parts(str(tmp_path)), str(tmp_path / "all.parquet"))
    table = parquet.read_table(tmp_path / "all.parquet")
    assert table["score"].to_pylist() == expected["score"][:, 0].tolist()
    assert table["vector"].to_pylist() == expected["vector"].tolist()
    assert table["label"].to_pylist() == expected["label"].tolist()


@pytest.mark.parametrize("name", ["all.npz", "all.csv"])
def test_no_outputs_make_an_empty_file(tmp_path, name):
    output.write(Parts(str(tmp_path)), str(tmp_path / name))
    assert (tmp_path / name).exists()


def test_a_task_done_twice_counts_once(tmp_path):
    for value in (1.0, 2.0):
        parts.write(str(tmp_path), 0, {"a": np.full(3, value)})
    made = Parts(str(tmp_path))
    assert (made.examples, [a["a"].tolist() for a in made.arrays()]) == (
        3,
        [[2.0] * 3],
    )


def test_shapes_that_differ_are_said(tmp_path):
    parts.write(str(tmp_path), 0, {"a": np.zeros((2, 3))})
    parts.write(str(tmp_path), 1, {"a": np.zeros((2, 4))})
    with pytest.raises(ConfigError, match=r"Received: a of shapes \(3,\) and"):
        Parts(str(tmp_path))


def test_csv_takes_no_matrices(tmp_path):
    parts.write(str(tmp_path), 0, {"a": np.zeros((2, 3, 4))})
    path = tmp_path / "all.csv"
    with pytest.raises(
        ConfigError, match=r"write \.npz\. Received: a of shape"
    ):
        output.write(Parts(str(tmp_path)), str(path))
    # Nothing is left half-written.
    assert [p.name for p in tmp_path.iterdir()] == ["parts"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("all.txt", "written as .npz, .csv, .parquet. Received"),
        ("all", "written as"),
        ("nowhere/all.npz", "must be there and writable"),
    ],
)
def test_a_path_that_cannot_work(tmp_path, path, words):
    with pytest.raises(ConfigError, match=words):
        output.check_path(str(pathlib.Path(tmp_path, path)))


def test_a_path_that_can_work(tmp_path):
    output.check_path(str(tmp_path / "all.npz"))
