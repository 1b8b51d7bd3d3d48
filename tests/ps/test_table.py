"""Tables: rows appear when they are trained, and only then."""

import math
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_keras.ps.initializers import initial_rows
from elastic_keras.ps.table import Table
from elastic_keras.ps.warm_up import warm_up
from elastic_keras.signature import (
    ConstraintSpec,
    InitializerSpec,
    OptimizerSpec,
    TableSpec,
)

_UNIFORM = InitializerSpec("uniform", -0.05, 0.05)
_SGD = OptimizerSpec("sgd", 0.1)


def _table(optimizer=_SGD, dim=4, **options):
    spec = TableSpec("t", dim, **{"initializer": _UNIFORM, **options})
    return Table(spec, optimizer, seed=5, table_index=2)


def _ids(*ids):
    return np.array(ids, dtype=np.int64)


def _ones(n, dim=4):
    return np.ones((n, dim), dtype=np.float32)


def test_reading_never_creates_rows():
    table = _table()
    table.apply(_ids(1, 2), _ones(2), learning_rate=0.1)
    before = (table.rows, table.nbytes, *table.export()[:2])
    values = table.pull(np.arange(-1000, 100_000, dtype=np.int64))
    after = (table.rows, table.nbytes, *table.export()[:2])
    assert values.shape == (101_000, 4)
    assert all(map(np.array_equal, before, after))


def test_a_row_begins_where_reading_said_it_would():
    table = _table()
    ids = _ids(3, -3, 2**62, -(2**63))
    expected = initial_rows(_UNIFORM, 5, 2, ids, 4)
    assert np.array_equal(table.pull(ids), expected)
    table.apply(ids[:2], _ones(2), learning_rate=0.5)
    expected[:2] -= np.float32(0.5)
    assert np.array_equal(table.pull(ids), expected)
    assert table.rows == 2


@settings(max_examples=30, deadline=None)
@given(
    batches=st.lists(
        st.lists(st.integers(-20, 20), unique=True, max_size=15), max_size=8
    ),
    order=st.randoms(use_true_random=False),
    name=st.sampled_from(["sgd", "adagrad", "adam", "nadam", "ftrl"]),
)
def test_the_order_of_ids_and_other_ids_do_not_matter(batches, order, name):
    optimizer = OptimizerSpec(name, 0.1)
    one, other = _table(optimizer), _table(optimizer)
    other.apply(_ids(*range(100, 300)), _ones(200), learning_rate=0.1)
    for number, batch in enumerate(batches):
        gradients = np.array(
            [[i + number] * 4 for i in batch], dtype=np.float32
        ).reshape(-1, 4)
        one.apply(_ids(*batch), gradients, learning_rate=0.1)
        shuffled = list(range(len(batch)))
        order.shuffle(shuffled)
        other.apply(
            _ids(*batch)[shuffled], gradients[shuffled], learning_rate=0.1
        )
    everything = np.arange(-25, 25, dtype=np.int64)
    assert np.array_equal(one.pull(everything), other.pull(everything))


def test_growth_keeps_every_row():
    table = _table(OptimizerSpec("adam", 0.1), dim=3)
    expected = {}
    rng = np.random.default_rng(0)
    for _ in range(30):
        ids = np.unique(rng.integers(0, 40_000, 3000))
        for row_id in ids.tolist():
            expected[row_id] = expected.get(row_id, 0) + 1
        table.apply(ids, _ones(len(ids), 3), learning_rate=0.0)
    ids, weights, slots = table.export()
    assert dict(zip(ids.tolist(), slots["count"].tolist(), strict=True)) == (
        expected
    )
    assert np.array_equal(weights, initial_rows(_UNIFORM, 5, 2, ids, 3))
    assert np.array_equal(table.pull(ids), weights)


@pytest.mark.parametrize(
    ("optimizer", "slots"),
    [
        (_SGD, {}),
        (
            OptimizerSpec(
                "adagrad", 0.1, hyper={"initial_accumulator_value": 0.5}
            ),
            {"accumulator": 0.5},
        ),
        (
            OptimizerSpec("nadam", 0.1, use_ema=True),
            {
                "momentum": 0.0,
                "velocity": 0.0,
                "average": None,
                "count": 1,
                "product": None,
            },
        ),
    ],
)
def test_slots_begin_with_the_optimizer_s_values(optimizer, slots):
    # Not with the embedding's initializer: Adam's would be NaN then.
    table = _table(optimizer)
    zeros = np.zeros((2, 4), dtype=np.float32)
    table.apply(_ids(1, 2), zeros, learning_rate=0.1)
    found = table.export()[2]
    assert set(found) == set(slots)
    for name, value in slots.items():
        if value is not None:
            assert np.all(found[name] == np.float32(value)), name


def test_export_and_restore_give_the_same_table():
    optimizer = OptimizerSpec("nadam", 0.1, use_ema=True)
    one, other = _table(optimizer), _table(optimizer)
    rng = np.random.default_rng(1)
    ids = rng.permutation(5000).astype(np.int64)
    for _ in range(3):
        some = ids[rng.permutation(5000)[:3000]]
        gradients = rng.normal(size=(3000, 4)).astype(np.float32)
        one.apply(some, gradients, learning_rate=0.1)
    exported = one.export()
    half = len(exported[0]) // 2
    for part in (slice(half, None), slice(None, half)):
        other.restore(
            exported[0][part],
            exported[1][part],
            {name: slot[part] for name, slot in exported[2].items()},
        )
    assert other.rows == one.rows
    for table in (one, other):
        table.apply(ids, _ones(5000), learning_rate=0.1)
    assert np.array_equal(one.pull(ids), other.pull(ids))
    one.finalize()
    other.finalize()
    assert np.array_equal(one.pull(ids), other.pull(ids))


def test_restore_refuses_other_slots():
    table = _table(OptimizerSpec("adagrad", 0.1))
    weights = _ones(1)
    with pytest.raises(ValueError, match=r"\['accumulator'\].*\['momentum'\]"):
        table.restore(_ids(1), weights, {"momentum": weights})
    with pytest.raises(ValueError, match="slot accumulator must have shape"):
        table.restore(_ids(1), weights, {"accumulator": weights[0]})
    assert table.rows == 0


def test_takes_arrays_from_the_wire():
    table = _table()
    ids = np.frombuffer(_ids(1, 2, 3).tobytes(), dtype=np.int64)
    gradients = np.frombuffer(_ones(3).tobytes(), dtype=np.float32)
    table.apply(ids, gradients.reshape(3, 4), learning_rate=0.5)
    assert np.array_equal(
        table.pull(ids),
        initial_rows(_UNIFORM, 5, 2, ids, 4) - np.float32(0.5),
    )
    # Strides and unaligned memory as well.
    assert np.array_equal(table.pull(ids[::-1]), table.pull(ids)[::-1])
    buffer = b"x" + _ids(3, 2, 1).tobytes()
    unaligned = np.frombuffer(buffer, dtype=np.int64, offset=1)
    assert np.array_equal(table.pull(unaligned), table.pull(ids)[::-1])


def test_empty_batches_change_nothing():
    table = _table()
    table.apply(_ids(), _ones(0), learning_rate=0.1)
    assert table.rows == 0
    assert table.pull(_ids()).shape == (0, 4)


@pytest.mark.parametrize(
    ("ids", "gradients", "rate", "message"),
    [
        (_ids(1).astype(np.int32), _ones(1), 0.1, "dtype int64.*dtype=int32"),
        (_ids(1).reshape(1, 1), _ones(1), 0.1, r"1-D.*shape=\(1, 1\)"),
        (_ids(1), _ones(1).astype(np.float64), 0.1, "float32.*dtype=float64"),
        (_ids(1), _ones(2), 0.1, r"gradients.*\(1, 4\).*shape=\(2, 4\)"),
        (_ids(1), _ones(1, 3), 0.1, r"gradients.*\(1, 4\).*shape=\(1, 3\)"),
        (_ids(1), _ones(1), math.nan, "learning_rate=nan"),
    ],
)
def test_bad_arguments_change_nothing(ids, gradients, rate, message):
    table = _table()
    with pytest.raises(ValueError, match=message):
        table.apply(ids, gradients, learning_rate=rate)
    assert table.rows == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initializer": InitializerSpec("glorot")}, "glorot"),
        ({"constraint": ConstraintSpec("max_norm", axes=(0,))}, r"axes=\(0,\)"),
        ({"dim": 0}, "dim=0"),
        ({"optimizer": OptimizerSpec("muon", 0.1)}, "name='muon'"),
    ],
)
def test_refuses_a_bad_spec(options, message):
    with pytest.raises(ValueError, match=message):
        _table(**options)


def test_weight_decay_goes_by_the_table():
    optimizer = OptimizerSpec("sgd", 0.1, weight_decay=0.5)
    zeros = np.zeros((1, 4), dtype=np.float32)
    for decays in (True, False):
        table = _table(optimizer, weight_decay=decays)
        start = table.pull(_ids(1))
        table.apply(_ids(1), zeros, learning_rate=0.1)
        moved = not np.array_equal(table.pull(_ids(1)), start)
        assert moved == decays


def test_a_constraint_holds_for_touched_rows():
    table = _table(
        constraint=ConstraintSpec("max_norm", max_value=0.5, axes=(1,))
    )
    table.apply(_ids(1, 2), 10 * _ones(2), learning_rate=1.0)
    norms = np.linalg.norm(table.pull(_ids(1, 2, 3)), axis=1)
    np.testing.assert_allclose(norms[:2], 0.5, rtol=1e-5)
    # Not touched: as it began.
    assert np.array_equal(
        table.pull(_ids(3)), initial_rows(_UNIFORM, 5, 2, _ids(3), 4)
    )


def test_a_pull_beside_applies_sees_whole_rows_only():
    table = _table(dim=64, initializer=InitializerSpec())
    ids = np.arange(500, dtype=np.int64)
    done = threading.Event()
    torn = []

    def pull():
        while not done.is_set():
            values = table.pull(ids)
            # Every apply moves all elements of all rows by the same.
            if values.min() != values.max():
                torn.append(values)

    threads = [threading.Thread(target=pull) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        table.apply(ids, _ones(500, 64), learning_rate=1.0)
    done.set()
    for thread in threads:
        thread.join(60)
    assert not torn
    assert np.all(table.pull(ids) == np.float32(-200))


def _resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", ["sgd", "adagrad"])
def test_memory_is_at_most_a_quarter_above_the_payload(name):
    dim, batch = 8, 50_000
    gradients = _ones(batch, dim)
    table = _table(OptimizerSpec(name, 0.1), dim=dim)
    payload = 8 + 4 * dim * (1 if name == "sgd" else 2)
    # The compiled kernels are no part of the table.
    warm_up()
    before = _resident_bytes()
    for start in range(0, 1_400_000, batch):
        ids = np.arange(start, start + batch, dtype=np.int64)
        table.apply(ids, gradients, learning_rate=0.1)
        if table.rows >= 1_000_000:
            assert table.nbytes <= 1.25 * table.rows * payload
            used = _resident_bytes() - before
            assert used <= 1.25 * table.rows * payload
            assert table.nbytes <= used + (8 << 20)
            assert used <= table.nbytes + (8 << 20)
