import numpy as np
import pytest

from elastic_keras.inspecting.norms import Norms


def test_they_are_those_of_all_parts():
    values = np.random.default_rng(0).lognormal(-3, 2, 1001)
    norms = Norms()
    for part in np.split(values, [1, 400, 400]):
        norms.add(part)
    norms.add(np.zeros(3))
    assert norms.count == 1004
    assert norms.zeros == 3
    assert norms.mean == pytest.approx(values.sum() / 1004)
    assert (norms.min, norms.max) == (0, values.max())
    assert norms.median == pytest.approx(np.median(values), rel=0.05)


def test_what_is_beyond_is_counted_exactly():
    values = np.random.default_rng(1).lognormal(0, 2, 500)
    norms = Norms()
    norms.add(values)
    limit, count = norms.beyond(10.0)
    assert limit == pytest.approx(10 * np.median(values), rel=0.1)
    assert limit >= 10 * norms.median
    assert count == (values > limit).sum() > 0


@pytest.mark.parametrize("values", [[], [0.0, 0.0]])
def test_nothing_to_compare_with(values):
    norms = Norms()
    norms.add(np.array(values))
    assert (norms.median, norms.mean) == (0, 0)
    assert norms.beyond(10.0) == (0, 0)


def test_the_smallest_and_the_largest_float32():
    norms = Norms()
    norms.add(np.array([1e-45, 3e38, 1e41]))
    assert norms.count == 3
    assert norms.median == pytest.approx(3e38, rel=0.05)
