"""One id of a snapshot."""

import numpy as np
import pytest

from elastic_keras import routing
from elastic_keras.config import StalenessOptions
from elastic_keras.inspecting.row import find, neighbours
from elastic_keras.ps.shard import Shard
from tests.inspecting.stand_ins import table, take

_IDS = np.arange(100, 150)


@pytest.fixture
def weights():
    """Rows of ids 100 to 149."""
    return np.random.default_rng(3).normal(size=(50, 6)).astype(np.float32)


@pytest.fixture
def snapshot(tmp_path, weights):
    """A snapshot of two tables, the first one empty."""
    slots = {
        "momentum": 2 * weights,
        "count": np.arange(50, dtype=np.uint32),
    }
    return take(
        tmp_path,
        [
            (table("empty", 3), [], np.empty((0, 3)), {}),
            (table("users", 6), _IDS, weights, slots),
        ],
    )


def test_a_row_and_its_slots(snapshot, weights):
    report = find(snapshot, 1, 117)
    assert (report.table, report.id, report.exists) == ("users", 117, True)
    assert report.shard == routing.owners(np.array([117]), 2)[0]
    assert report.row == weights[17].tolist()
    assert report.norm == pytest.approx(np.linalg.norm(weights[17]))
    assert report.slots == {
        "momentum": (2 * weights[17]).tolist(),
        "count": 17,
    }


def test_an_id_without_a_row_has_the_value_that_a_shard_would_give(snapshot):
    report = find(snapshot, 1, -3)
    assert (report.exists, report.slots) == (False, {})
    shard = Shard(0, 1, StalenessOptions())
    shard.adopt(snapshot.signature)
    (row,) = shard.pull([(1, np.array([-3]))]).rows[0]
    assert report.row == row.tolist()
    assert any(row)


def test_neighbours_are_those_of_all_parts(snapshot, weights):
    unit = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    cosines = unit @ unit[17]
    wanted = np.argsort(-cosines)[1:6]
    found = neighbours(snapshot, 1, find(snapshot, 1, 117), 5)
    assert [each.id for each in found] == _IDS[wanted].tolist()
    np.testing.assert_allclose(
        [each.cosine for each in found], cosines[wanted], rtol=1e-5
    )
    everyone = neighbours(snapshot, 1, find(snapshot, 1, 117), 100)
    assert len(everyone) == 49


def test_what_has_no_direction_is_nobodys_neighbour(tmp_path):
    rows = [[1, 0], [0, 0], [np.nan, 1], [2, 1], [np.inf, 0], [-1, 0]]
    slots = {"momentum": np.zeros((6, 2), np.float32)}
    snapshot = take(tmp_path, [(table("t", 2), range(6), rows, slots)])
    found = neighbours(snapshot, 0, find(snapshot, 0, 0), 9)
    assert [each.id for each in found] == [3, 5]
    assert [each.cosine for each in found] == pytest.approx([0.8944272, -1])
    for row_id in (1, 2, 4, 77):
        report = find(snapshot, 0, row_id)
        assert neighbours(snapshot, 0, report, 9) == []
    assert find(snapshot, 0, 77).exists is False
