"""Every optimizer and option beside Keras's own."""

import importlib.util
import math
import pathlib

import keras
import numpy as np
import pytest

from elastic_keras.ps.optimizers.plan import ALGORITHMS, OptimizerPlan
from elastic_keras.ps.table import Table
from elastic_keras.signature import (
    ConstraintSpec,
    OptimizerSpec,
    TableSpec,
)

_PATH = pathlib.Path(__file__).parents[2] / "scripts" / "optimizer_table.py"
_SPEC = importlib.util.spec_from_file_location("optimizer_table", _PATH)
assert _SPEC is not None
assert _SPEC.loader is not None
optimizer_table = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(optimizer_table)

CASES = optimizer_table.cases()
Case = optimizer_table.Case


@pytest.mark.parametrize("case", CASES, ids=str)
def test_follows_keras(case):
    dense, rows = optimizer_table.worst_differences(case)
    assert dense <= 1e-6
    assert rows <= 1e-6


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (keras.constraints.NonNeg(), ConstraintSpec("non_neg")),
        (
            keras.constraints.MaxNorm(0.7, axis=1),
            ConstraintSpec("max_norm", max_value=0.7, axes=(1,)),
        ),
        (
            keras.constraints.UnitNorm(axis=-1),
            ConstraintSpec("unit_norm", axes=(-1,)),
        ),
        (
            keras.constraints.MinMaxNorm(0.4, 0.9, 0.6, axis=1),
            ConstraintSpec(
                "min_max_norm",
                min_value=0.4,
                max_value=0.9,
                rate=0.6,
                axes=(1,),
            ),
        ),
    ],
)
@pytest.mark.parametrize("options", [{}, {"use_ema": True}], ids=str)
def test_follows_keras_under_a_constraint(theirs, ours, options):
    dense, rows = optimizer_table.worst_differences(
        Case("Adam", options), steps=30, constraint=(theirs, ours)
    )
    assert dense <= 1e-6
    assert rows <= 1e-6


def test_the_table_covers_every_optimizer_and_option():
    covered = {(c.keras_name.lower(), key) for c in CASES for key in c.options}
    for name, algorithm in ALGORITHMS.items():
        assert any(c.keras_name.lower() == name for c in CASES)
        # AdamW's own options are Adam's.
        source = "adam" if name == "adamw" else name
        for option in algorithm.defaults:
            assert (source, option) in covered


def _table(spec, dim=3):
    return Table(TableSpec("t", dim), spec, seed=0, table_index=0)


def _ones(ids, dim=3):
    return np.ones((len(ids), dim), dtype=np.float32)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_only_touched_rows_move(name):
    table = _table(OptimizerSpec(name, 0.1, hyper={}, weight_decay=0.01))
    both = np.array([1, 2], dtype=np.int64)
    table.apply(both, _ones(both), learning_rate=0.1)
    _, before, slots_before = table.export()
    table.apply(both[:1], _ones(both[:1]), learning_rate=0.1)
    _, after, slots_after = table.export()
    assert np.array_equal(before[1], after[1])
    assert not np.array_equal(before[0], after[0])
    for slot, values in slots_before.items():
        assert np.array_equal(values[1], slots_after[slot][1])


@pytest.mark.parametrize("name", ["adam", "adamax", "nadam"])
@pytest.mark.parametrize("hyper", [{}, {"beta_1": 0.5, "beta_2": 0.8}])
def test_a_late_row_is_corrected_by_its_own_count(name, hyper):
    spec = OptimizerSpec(name, 0.1, hyper=hyper)
    late, alone = _table(spec), _table(spec)
    old, new = (np.array([i], dtype=np.int64) for i in (1, 2))
    for _ in range(50):
        late.apply(old, _ones(old), learning_rate=0.1)
    for table in (late, alone):
        for _ in range(3):
            table.apply(new, _ones(new), learning_rate=0.1)
    assert np.array_equal(late.pull(new), alone.pull(new))
    assert list(late.export()[2]["count"]) == [50, 3]
    # Without the correction the first step would be ten times smaller.
    assert abs(late.pull(new)).min() > 0.1


def test_a_late_row_s_average_begins_at_its_own_first_value():
    table = _table(OptimizerSpec("sgd", 1.0, use_ema=True, ema_momentum=0.75))
    ids = np.array([5], dtype=np.int64)
    other = np.array([6], dtype=np.int64)
    for _ in range(4):
        table.apply(other, _ones(other), learning_rate=1.0)
    table.apply(ids, _ones(ids), learning_rate=1.0)
    table.apply(ids, _ones(ids), learning_rate=1.0)
    table.finalize()
    assert np.array_equal(table.pull(ids), _ones(ids) * np.float32(-0.75 - 0.5))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (OptimizerSpec("lamb", 0.1), "one of sgd, rmsprop.*name='lamb'"),
        (
            OptimizerSpec("adam", 0.1, hyper={"rho": 0.9}),
            "options of adam are beta_1, beta_2.*rho=0.9",
        ),
        (OptimizerSpec("sgd", 0.1, hyper={"momentum": 1.5}), "momentum=1.5"),
        (OptimizerSpec("sgd", 0.1, hyper={"momentum": -0.5}), "momentum=-0.5"),
        (
            OptimizerSpec("adam", 0.1, hyper={"epsilon": math.nan}),
            "epsilon=nan",
        ),
        (
            OptimizerSpec("ftrl", 0.1, hyper={"learning_rate_power": 1.0}),
            "learning_rate_power=1.0",
        ),
        (OptimizerSpec("lion", 0.1, hyper={"beta_1": 0.0}), "beta_1=0.0"),
        (OptimizerSpec("sgd", 0.1, weight_decay=math.inf), "weight_decay=inf"),
        (
            OptimizerSpec("sgd", 0.1, use_ema=True, ema_momentum=1.1),
            "ema_momentum=1.1",
        ),
        (
            OptimizerSpec("sgd", 0.1, use_ema=True, ema_overwrite_frequency=0),
            "ema_overwrite_frequency=0",
        ),
    ],
)
def test_refuses_what_it_does_not_know(spec, message):
    with pytest.raises(ValueError, match=message):
        OptimizerPlan.from_spec(spec)
