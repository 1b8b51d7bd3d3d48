"""The ledger against a plain set of keys."""

import math
import tracemalloc

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from elastic_keras.ps.ledger import (
    MAX_BATCHES,
    MAX_TASKS,
    PAGE_TASKS,
    Ledger,
)

_TASKS = st.sampled_from([0, 1, 5, PAGE_TASKS - 1, PAGE_TASKS, MAX_TASKS - 1])
_KEYS = st.tuples(st.integers(0, 3), _TASKS, st.integers(0, 12))
_ENTRIES = st.lists(
    st.tuples(_KEYS, st.integers(0, 100), st.booleans()),
    unique_by=lambda entry: entry[0],
    max_size=40,
)


def _filled(entries):
    ledger = Ledger()
    for key, examples, nonfinite in entries:
        ledger.add(*key, examples, nonfinite=nonfinite)
    return ledger


def _batches(bitmap: bytes) -> set[int]:
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


@given(_ENTRIES, _KEYS)
def test_it_holds_what_was_added_and_nothing_else(entries, other):
    ledger = _filled(entries)
    keys = {key for key, _, _ in entries}
    for key, _, nonfinite in entries:
        assert ledger.holds(*key)
        assert ledger.is_nonfinite(*key) == nonfinite
    assert ledger.holds(*other) == (other in keys)


@given(_ENTRIES)
def test_it_counts_examples_and_batches(entries):
    ledger = _filled(entries)
    applied: dict[int, int] = {}
    for (epoch, _, _), examples, nonfinite in entries:
        applied.setdefault(epoch, 0)
        applied[epoch] += 0 if nonfinite else examples
    assert ledger.examples_by_epoch() == applied
    refused = [examples for _, examples, bad in entries if bad]
    assert ledger.batches == len(entries) - len(refused)
    assert ledger.nonfinite_batches == len(refused)
    assert ledger.nonfinite_examples == sum(refused)


@given(_ENTRIES, st.integers(0, 3), _TASKS)
def test_progress_shows_a_tasks_batches(entries, epoch, task):
    bitmap, examples = _filled(entries).progress(epoch, task)
    of_task = [
        (key[2], count) for key, count, _ in entries if key[:2] == (epoch, task)
    ]
    assert _batches(bitmap) == {batch for batch, _ in of_task}
    assert examples == sum(count for _, count in of_task)
    last = max((batch for batch, _ in of_task), default=-1)
    assert len(bitmap) == math.ceil((last + 1) / 8)


@given(_ENTRIES)
def test_it_is_iterated_in_order(entries):
    expected = sorted((*key, nonfinite) for key, _, nonfinite in entries)
    assert list(_filled(entries)) == expected


@given(_ENTRIES, st.randoms())
def test_state_is_a_round_trip_and_knows_no_order(entries, random):
    state = _filled(entries).to_state()
    again = Ledger.from_state(state)
    assert again.to_state() == state
    assert list(again) == list(_filled(entries))
    assert again.batches == _filled(entries).batches
    assert again.nonfinite_batches == _filled(entries).nonfinite_batches
    shuffled = list(entries)
    random.shuffle(shuffled)
    assert _filled(shuffled).to_state() == state


def test_a_restored_ledger_goes_on():
    ledger = _filled([((0, 3, 0), 8, False), ((0, 3, 2), 8, False)])
    again = Ledger.from_state(ledger.to_state())
    again.add(0, 3, 1, 8)
    assert _batches(again.progress(0, 3)[0]) == {0, 1, 2}
    assert again.examples_by_epoch() == {0: 24}
    # The one it was made from has its own arrays.
    assert not ledger.holds(0, 3, 1)


def test_a_batch_is_added_once():
    ledger = _filled([((0, 3, 0), 8, False)])
    before = ledger.to_state()
    with pytest.raises(ValueError, match="holds this batch already"):
        ledger.add(0, 3, 0, 8)
    assert ledger.to_state() == before


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ((-1, 0, 0), "epoch"),
        ((1 << 40, 0, 0), "epoch"),
        ((0, -1, 0), "task"),
        ((0, MAX_TASKS, 0), "task"),
        ((0, 0, -1), "batch"),
        ((0, 0, MAX_BATCHES), "batch"),
    ],
)
def test_a_key_out_of_range_is_refused(key, field):
    ledger = Ledger()
    with pytest.raises(ValueError, match=f"key.{field}: .*Received: {field}="):
        ledger.add(*key, 1)
    assert ledger.to_state() == Ledger().to_state()


def test_an_epoch_of_many_tasks_is_small():
    tracemalloc.start()
    ledger = Ledger()
    before = tracemalloc.get_traced_memory()[0]
    tasks = 20_000
    for task in range(tasks):
        ledger.add(0, task, 0, 100)
        ledger.add(0, task, 1, 100)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert ledger.batches == 2 * tasks
    assert used < 14 * tasks + 20_000
