"""The mean of several pushes, against one worked out row by row."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from elastic_keras.ps.buffer import GradientBuffer
from elastic_keras.ps.push import Gradients, Rows

_IDS = st.lists(st.integers(-5, 5), unique=True, max_size=6)
_NUMBERS = st.integers(-8, 8)


@st.composite
def _pushes(draw):
    value = iter(range(1, 1000))
    pushes = []
    for _ in range(draw(st.integers(1, 4))):
        rows = [
            Rows(
                table,
                np.array(ids, np.int64),
                np.array(
                    [[next(value)] * (table + 1) for _ in ids], np.float32
                ).reshape(len(ids), table + 1),
            )
            for table in draw(st.sets(st.integers(0, 1)))
            for ids in [draw(_IDS)]
        ]
        dense = np.array([draw(_NUMBERS), draw(_NUMBERS)], np.float32)
        states = np.array([draw(_NUMBERS)], np.float32)
        weight = draw(st.sampled_from([1.0, 0.5, 0.25]))
        pushes.append((Gradients(rows, dense, states), weight))
    return pushes


@given(_pushes())
@settings(deadline=None)
def test_it_is_the_mean(pushes):
    buffer = GradientBuffer(len(pushes))
    for number, (gradients, weight) in enumerate(pushes):
        assert not buffer.is_full
        buffer.add(gradients, weight, number)
    assert buffer.is_full
    assert buffer.staleness() == list(range(len(pushes)))
    mean = buffer.mean()
    count = len(pushes)
    np.testing.assert_allclose(
        mean.dense, sum(w * g.dense for g, w in pushes) / count, rtol=1e-6
    )
    np.testing.assert_allclose(
        mean.state_deltas, sum(g.state_deltas for g, _ in pushes) / count
    )
    held: dict[tuple[int, int], list[np.ndarray]] = {}
    for gradients, weight in pushes:
        for rows in gradients.rows:
            for row_id, row in zip(rows.ids, rows.gradients, strict=True):
                key = (rows.table, int(row_id))
                held.setdefault(key, []).append(weight * row)
    found = {
        (rows.table, int(row_id)): row
        for rows in mean.rows
        for row_id, row in zip(rows.ids, rows.gradients, strict=True)
    }
    assert found.keys() == held.keys()
    for key, row in found.items():
        np.testing.assert_allclose(
            row, sum(held[key]) / len(held[key]), rtol=1e-6
        )


def test_it_is_empty_after_it_was_cleared():
    buffer = GradientBuffer(2)
    nothing = Gradients([], np.zeros(0, np.float32), np.zeros(0, np.float32))
    buffer.add(nothing, 1.0, 0)
    buffer.clear()
    assert len(buffer) == 0
    assert not buffer.is_full
    assert buffer.staleness() == []


def test_it_keeps_what_came_whatever_becomes_of_the_arrays():
    buffer = GradientBuffer(2)
    arrays = [np.ones((1, 2), np.float32), np.ones(3, np.float32)]
    ids = np.array([5], np.int64)
    for _ in range(2):
        buffer.add(
            Gradients([Rows(0, ids, arrays[0])], arrays[1], arrays[1]), 1.0, 0
        )
    for array in (*arrays, ids):
        array[:] = 9
    mean = buffer.mean()
    assert mean.rows[0].ids.tolist() == [5]
    assert mean.rows[0].gradients.tolist() == [[1, 1]]
    assert mean.dense.tolist() == mean.state_deltas.tolist() == [1, 1, 1]
