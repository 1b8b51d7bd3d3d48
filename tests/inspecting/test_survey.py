"""What is said of tables and dense parameters."""

import numpy as np
import pytest

from elastic_keras.inspecting.dense import survey_dense
from elastic_keras.inspecting.survey import Outlier, Updated, survey
from tests.inspecting.stand_ins import table, take

_IDS = np.arange(-10, 30)


def _take(tmp_path, weights, **slots):
    slots = {"momentum": np.zeros_like(weights), **slots}
    return take(tmp_path, [(table("users", 4), _IDS, weights, slots)])


def _weights():
    return np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)


def test_a_healthy_table(tmp_path):
    weights = _weights()
    weights[3] = 0
    count = np.arange(40, dtype=np.uint32)
    snapshot = _take(tmp_path, weights, count=count)
    found = survey(snapshot, 0)
    assert (found.name, found.dim, found.rows) == ("users", 4, 40)
    assert found.optimizer == "adam"
    assert sum(found.rows_by_shard) == 40
    assert min(found.rows_by_shard) > 0
    assert found.slots == ["count", "momentum"]
    assert 0 < found.bytes < snapshot.nbytes
    norms = np.linalg.norm(weights.astype(np.float64), axis=1)
    assert found.norm_mean == pytest.approx(norms.mean())
    assert found.norm_max == pytest.approx(norms.max())
    assert (found.norm_min, found.zero_rows) == (0, 1)
    assert (found.nonfinite_rows, found.nonfinite_slots) == (0, {})
    assert (found.outlier_rows, found.outliers) == (0, [])
    # Ids begin at -10.
    assert found.most_updated[:2] == [Updated(29, 39), Updated(28, 38)]
    assert len(found.most_updated) == 10


def test_without_a_count_nothing_is_made_up(tmp_path):
    assert survey(_take(tmp_path, _weights()), 0).most_updated is None


def test_what_is_broken(tmp_path):
    weights = _weights()
    weights[7, 2] = np.nan
    weights[11, 0] = np.inf
    weights[20] = 1000
    momentum = np.zeros_like(weights)
    momentum[[1, 2, 3], 0] = -np.inf
    found = survey(_take(tmp_path, weights, momentum=momentum), 0)
    assert found.nonfinite_rows == 2
    assert sorted(found.nonfinite_ids) == [-3, 1]
    assert found.nonfinite_slots == {"momentum": 3}
    assert found.outlier_rows == 1
    assert found.outliers == [Outlier(10, 2000.0)]
    # Rows that are not finite say nothing of the others.
    assert found.norm_max == 2000


def test_many_that_are_broken_are_not_all_named(tmp_path):
    found = survey(_take(tmp_path, np.full((40, 4), np.nan, np.float32)), 0)
    assert (found.nonfinite_rows, len(found.nonfinite_ids)) == (40, 10)
    assert (found.norm_min, found.norm_max, found.norm_mean) == (0, 0, 0)


def test_an_empty_table(tmp_path):
    snapshot = take(tmp_path, [(table("users", 4), [], np.empty((0, 4)), {})])
    found = survey(snapshot, 0)
    assert (found.rows, found.most_updated, found.norm_min) == (0, None, 0)


def test_dense_parameters(tmp_path):
    dense = np.arange(-2, 4, dtype=np.float32).reshape(2, 3)
    dense[0, 0] = np.nan
    (report,) = survey_dense(take(tmp_path, [], dense=dense))
    assert (report.name, report.shape) == ("kernel", (2, 3))
    assert (report.min, report.max, report.nonfinite) == (-1, 3, 1)
    assert report.norm == pytest.approx(15**0.5)
