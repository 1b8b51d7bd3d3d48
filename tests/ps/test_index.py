"""The index beside a dictionary, while it grows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
)

from elastic_keras import routing
from elastic_keras.ps import index as index_module
from elastic_keras.ps.index import Index
from elastic_keras.ps.index_search import (
    FRONTIER,
    MULTIPLIERS,
    NOT_FOUND,
    mix,
)

_RECORD = 3
_EDGES = [0, -1, 1, -(2**63), 2**63 - 1, 2**31, 2**32, -(2**32)]


def _index(max_rows=60_000):
    return Index(np.zeros(_RECORD * max_rows, dtype=np.uint32), _RECORD)


def _ids(values):
    ids = np.array(values, dtype=np.int64)
    ids.flags.writeable = False
    return ids


def _unmix(hashes):
    """Ids with the given hashes."""
    x = np.asarray(hashes, dtype=np.uint64)

    def undo_shift(x, shift):
        y = x.copy()
        for _ in range(3):
            y = x ^ (y >> np.uint64(shift))
        return y

    def inverse(odd):
        return np.uint64(pow(int(odd), -1, 2**64))

    x = undo_shift(x, 27) * inverse(MULTIPLIERS[1])
    x = undo_shift(x, 33) * inverse(MULTIPLIERS[0])
    return undo_shift(x, 27).view(np.int64)


def _high(ids):
    """The high halves of the ids' hashes."""
    return np.array([mix(row_id) for row_id in ids], np.uint64) >> np.uint64(32)


class IndexMachine(RuleBasedStateMachine):
    """Inserts runs of ids, some known, and looks all up after each."""

    def __init__(self):
        super().__init__()
        self.index = _index()
        self.rows = {}

    @rule(
        start=st.one_of(
            st.sampled_from(_EDGES), st.integers(-(2**63), 2**63 - 1)
        ),
        stride=st.sampled_from([1, 3, 1 << 10, 1 << 32, (1 << 61) + 1]),
        count=st.sampled_from([0, 1, 2, 63, 64, 65, 700, 5000]),
    )
    def insert(self, start, stride, count):
        with np.errstate(over="ignore"):
            offsets = np.arange(count, dtype=np.uint64) * np.uint64(stride)
            ids = (np.uint64(start % 2**64) + offsets).view(np.int64)
        got = self.index.find_or_insert(_ids(ids))
        for row_id, row in zip(ids.tolist(), got.tolist(), strict=True):
            assert row == self.rows.setdefault(row_id, len(self.rows))

    @rule(ids=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=70))
    def find(self, ids):
        got = self.index.find(_ids(ids), 2)
        for row_id, row in zip(ids, got.tolist(), strict=True):
            assert row == self.rows.get(row_id, NOT_FOUND)

    @rule()
    def rebuild(self):
        self.index._rebuild()

    @invariant()
    def knows_exactly_what_was_inserted(self):
        assert self.index.rows == len(self.rows)
        got = self.index.find(_ids(list(self.rows)), 2)
        assert got.tolist() == list(self.rows.values())


TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(
    max_examples=25, stateful_step_count=12, deadline=None
)


def test_a_look_up_is_right_at_every_moment_of_growth():
    index = _index(200_000)
    ids = _ids(np.random.default_rng(0).permutation(120_000) * 7919)
    frontiers = set()
    for start in range(0, len(ids), 997):
        index.find_or_insert(ids[start : start + 997])
        known = min(start + 997, len(ids))
        rows = index.find(ids, 2)
        assert np.array_equal(rows[:known], np.arange(known))
        assert np.all(rows[known:] == NOT_FOUND)
        frontiers.add(int(index._state[FRONTIER]))
    # Growth was in progress at many of these moments.
    assert len(frontiers) > 20


def test_finding_changes_nothing():
    index = _index()
    index.find_or_insert(_ids(range(3000)))
    state = index._state.copy()
    tags = index._new.tags.copy()
    index.find(_ids(range(-5000, 5000)), 2)
    assert np.array_equal(index._state, state)
    assert np.array_equal(index._new.tags, tags)


def test_ids_chosen_to_collide_are_kept_apart():
    index = _index()
    # All at the last position, more than there is overflow for.
    low = np.arange(20_000, dtype=np.uint64)
    ids = _ids(_unmix((np.uint64(0xFFFFFFFF) << np.uint64(32)) | low))
    assert set(_high(ids).tolist()) == {0xFFFFFFFF}
    rows = index.find_or_insert(ids)
    assert np.array_equal(rows, np.arange(len(ids)))
    assert np.array_equal(index.find(ids, 2), rows)
    assert index._overflow > index_module._OVERFLOW
    assert index.find(_ids([0]), 2) == NOT_FOUND


@settings(max_examples=20, deadline=None)
@given(
    num_shards=st.sampled_from([2, 3, 8, 64]),
    stride=st.sampled_from([1, 7, 1 << 20, 1 << 33]),
)
def test_a_shard_s_ids_spread_over_all_positions(num_shards, stride):
    ids = np.arange(num_shards * 4000, dtype=np.int64) * stride
    mine = ids[routing.owners(ids, num_shards) == 0]
    counts = np.bincount(
        (_high(mine) >> np.uint64(28)).astype(int), minlength=16
    )
    expected = len(mine) / 16
    chi_square = np.sum((counts - expected) ** 2 / expected)
    # 15 degrees of freedom: above 60 about once in a million.
    assert chi_square < 60


def test_no_room_is_an_error_and_changes_nothing():
    index = _index(max_rows=100)
    index.find_or_insert(_ids(range(90)))
    with pytest.raises(MemoryError, match=r"ids=20, rows=90, max_rows=100"):
        index.find_or_insert(_ids(range(1000, 1020)))
    assert index.rows == 90
    # Known ids need no room.
    assert index.find_or_insert(_ids(range(80, 100)))[-1] == 99


def test_memory_stays_bounded_while_buckets_move():
    index = _index(1_200_000)
    for start in range(0, 1_200_000, 20_000):
        index.find_or_insert(_ids(range(start, start + 20_000)))
        # 5 bytes a bucket; 70 % of those in use are full. Pages are whole.
        assert index.nbytes <= index.rows * 5 / 0.7 + (4 << 20)
