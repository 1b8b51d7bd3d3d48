import numpy as np
import pytest

from elastic_keras.inspecting.best import Best


@pytest.mark.parametrize("part", [1, 2, 7, 100])
def test_the_largest_whatever_the_parts(part):
    random = np.random.default_rng(part)
    ids = random.permutation(50)
    # Many are equal.
    values = random.integers(0, 9, 50).astype(float)
    best = Best(6)
    for start in range(0, 50, part):
        best.add(ids[start : start + part], values[start : start + part])
    ordered = sorted(zip(-values, ids, strict=True))
    # Of equal values the smaller id is first.
    assert best.items() == [(row_id, -value) for value, row_id in ordered[:6]]


def test_fewer_than_asked_for():
    best = Best(5)
    assert best.items() == []
    best.add(np.array([4, 2]), np.array([1.0, 3.0]))
    assert best.items() == [(2, 3.0), (4, 1.0)]
