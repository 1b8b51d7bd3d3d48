import sys

import numpy as np
import pytest

from elastic_keras.exports.embeddings import write_embeddings
from elastic_keras.exports.sorted_ids import sorted_ids
from tests.exports import cases


def table(snapshot):
    """Returns the row of each id of the first table."""
    return {
        int(index): row
        for part in snapshot.parts(0)
        for index, row in zip(part.ids, part.weights, strict=True)
    }


def test_numpy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    snapshot = cases.CASES["subclassed"].train(tmp_path).snapshot
    files = write_embeddings(snapshot, tmp_path)
    assert files == ["embeddings/users.npy", "embeddings/items.npy"]
    rows = np.load(tmp_path / "embeddings/users.npy")
    ids = np.load(tmp_path / "embeddings/users.ids.npy")
    assert rows.dtype == np.float32
    assert ids.dtype == np.int64
    expected = table(snapshot)
    assert set(ids.tolist()) == set(expected)
    for index, row in zip(ids.tolist(), rows, strict=True):
        np.testing.assert_array_equal(row, expected[index])


def test_parquet(tmp_path):
    parquet = pytest.importorskip(
        "pyarrow.parquet", reason="pyarrow is not installed"
    )
    snapshot = cases.CASES["subclassed"].train(tmp_path).snapshot
    files = write_embeddings(snapshot, tmp_path)
    assert files == ["embeddings/users.parquet", "embeddings/items.parquet"]
    read = parquet.read_table(tmp_path / files[0])
    expected = table(snapshot)
    ids = read["id"].to_pylist()
    assert set(ids) == set(expected)
    for index, row in zip(ids, read["embedding"].to_pylist(), strict=True):
        np.testing.assert_array_equal(np.float32(row), expected[index])


def test_no_rows(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    snapshot = cases.CASES["untrained"].train(tmp_path).snapshot
    write_embeddings(snapshot, tmp_path)
    assert np.load(tmp_path / "embeddings/rows.npy").shape == (0, 6)


def test_sorted_ids(tmp_path):
    snapshot = cases.CASES["subclassed"].train(tmp_path).snapshot
    found = sorted_ids(snapshot, 0)
    parts = list(snapshot.parts(0))
    assert len(parts) > 2
    ids = np.concatenate([part.ids for part in parts])
    np.testing.assert_array_equal(found.ids, np.sort(ids))
    np.testing.assert_array_equal(ids[found.places], found.ids)
