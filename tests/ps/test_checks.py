"""Checks of whole arrays, against NumPy and plain Python."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as arrays

from elastic_keras import routing
from elastic_keras.ps import checks

_INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.one_of(st.integers(0, 20), _INT64), max_size=60))
@settings(deadline=None)
def test_the_first_repeated_id(ids):
    expected = next((i for i, value in enumerate(ids) if value in ids[:i]), -1)
    assert checks.first_repeated(np.array(ids, np.int64)) == expected


@given(
    arrays.arrays(np.int64, st.integers(0, 50), elements=_INT64),
    st.integers(1, 9),
    st.data(),
)
@settings(deadline=None)
def test_the_first_id_of_another_shard(ids, num_shards, data):
    shard = data.draw(st.integers(0, num_shards - 1))
    others = np.flatnonzero(routing.owners(ids, num_shards) != shard)
    expected = int(others[0]) if others.size else -1
    assert checks.first_of_other_shard(ids, shard, num_shards) == expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (999, 2)])
def test_one_value_that_is_not_finite_is_found(bad, place):
    values = np.full((1000, 3), 3e38, np.float32)
    assert checks.all_finite(values)
    values[place] = bad
    assert not checks.all_finite(values)
