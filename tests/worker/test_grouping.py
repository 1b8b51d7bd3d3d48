import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_keras import routing
from elastic_keras.worker.grouping import group

_few = st.integers(-3, 3)
_any = st.integers(-(2**63), 2**63 - 1)


@settings(deadline=None)
@given(st.lists(_few | _any, max_size=60), st.integers(1, 5))
def test_every_id_once_with_its_owner_and_every_lookup_finds_its_id(
    ids, num_shards
):
    ids = np.asarray(ids, np.int64)
    grouped, inverse = group(ids, num_shards)
    assert sorted(grouped.ids) == sorted(set(ids.tolist()))
    assert grouped.bounds[0] == 0
    assert grouped.bounds[-1] == len(grouped.ids)
    for shard in range(num_shards):
        part = grouped.ids[grouped.of_shard(shard)]
        assert (routing.owners(part, num_shards) == shard).all()
    assert inverse.dtype == np.int32
    np.testing.assert_array_equal(grouped.ids[inverse], ids)


@settings(deadline=None)
@given(st.lists(_few | _any, max_size=60), st.integers(1, 5))
def test_ids_of_a_shard_keep_the_order_of_their_first_appearance(
    ids, num_shards
):
    grouped, _ = group(np.asarray(ids, np.int64), num_shards)
    for shard in range(num_shards):
        part = grouped.ids[grouped.of_shard(shard)].tolist()
        assert part == sorted(part, key=ids.index)


@pytest.mark.parametrize("num_shards", [1, 3])
def test_many_ids_of_few_and_of_all_values(num_shards):
    random = np.random.default_rng(0)
    for span in (1, 50, 1 << 40):
        ids = random.integers(0, span, 100_000)
        grouped, inverse = group(ids, num_shards)
        assert len(grouped.ids) == len(np.unique(ids))
        np.testing.assert_array_equal(grouped.ids[inverse], ids)


def test_ids_that_are_read_only_or_strided_are_taken():
    ids = np.array([7, 0, 7, 1, 8, 2])
    ids.flags.writeable = False
    grouped, inverse = group(ids[::2], 1)
    assert grouped.ids.tolist() == [7, 8]
    assert inverse.tolist() == [0, 0, 1]
