import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_keras import routing
from elastic_keras.worker.grouping import group


@settings(deadline=None)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=50),
    st.integers(1, 5),
)
def test_ids_are_grouped_by_owner(ids, num_shards):
    ids = np.asarray(ids, np.int64)
    grouped, rank = group(ids, num_shards)
    for shard in range(num_shards):
        part = grouped.ids[grouped.of_shard(shard)]
        assert (routing.owners(part, num_shards) == shard).all()
    assert grouped.bounds[-1] == len(ids)
    if rank is None:
        rank = np.arange(len(ids))
    np.testing.assert_array_equal(grouped.ids[rank], ids)


def test_one_shard_keeps_the_order_without_a_copy():
    ids = np.asarray([5, 3, 9], np.int64)
    grouped, rank = group(ids, 1)
    assert rank is None
    assert grouped.ids is ids


@pytest.mark.parametrize("num_shards", [2, 7])
def test_positions_fit_the_step(num_shards):
    _, rank = group(np.arange(100), num_shards)
    assert rank.dtype == np.int32
