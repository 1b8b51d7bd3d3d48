"""Initial values: their distributions, and that they are pure functions."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_keras.ps.initializers import initial_rows, inverse_normal
from elastic_keras.signature import InitializerSpec

_SPECS = [
    InitializerSpec("constant", 0.25),
    InitializerSpec("uniform", -0.05, 0.05),
    InitializerSpec("normal", 1.0, 2.0),
    InitializerSpec("truncated_normal", -1.0, 0.5),
]
_BITS = [
    [[1023418617, 3171984270], [1012124063, 1013195782]],
    [[1076999250, 3213674363], [1070888137, 1071333358]],
    [[3205819252, 3216957460], [3210199664, 3209988333]],
]
_NORMAL = statistics.NormalDist()


def _within_two(z):
    low = _NORMAL.cdf(-2.0)
    return (_NORMAL.cdf(z) - low) / (1 - 2 * low)


_CDFS = {
    "uniform": lambda x, a, b: (x - a) / (b - a),
    "normal": lambda x, a, b: _NORMAL.cdf((x - a) / b),
    "truncated_normal": lambda x, a, b: _within_two((x - a) / b),
}


@pytest.mark.parametrize("spec", _SPECS[1:], ids=lambda s: s.name)
@pytest.mark.parametrize("stride", [1, 1 << 32])
def test_follows_its_distribution(spec, stride):
    ids = np.arange(-5000, 5000, dtype=np.int64) * stride
    values = initial_rows(spec, 3, 1, ids, 10)
    flat = np.sort(values.reshape(-1).astype(np.float64))
    expected = np.array(
        [_CDFS[spec.name](x, spec.a, spec.b) for x in flat[::10]]
    )
    share = np.arange(0, len(flat), 10) / len(flat)
    # Kolmogorov-Smirnov: above 2.5 / sqrt(n) about once in 10^5.
    assert np.max(np.abs(expected - share)) < 2.5 / math.sqrt(len(flat))
    # Columns are independent of each other, and neighbouring ids too.
    noise = 5 / math.sqrt(len(ids))
    columns = np.corrcoef(values.T) - np.eye(10)
    assert np.max(np.abs(columns)) < noise
    neighbours = np.corrcoef(values[:-1, 0], values[1:, 0])[0, 1]
    assert abs(neighbours) < noise


def test_truncated_normal_never_leaves_two_deviations():
    spec = InitializerSpec("truncated_normal", 1.0, 0.5)
    values = initial_rows(spec, 0, 0, np.arange(50_000, dtype=np.int64), 4)
    assert values.min() >= 0.0
    assert values.max() <= 2.0
    assert values.max() > 1.99


def test_constant_is_constant():
    ids = np.arange(5, dtype=np.int64)
    values = initial_rows(InitializerSpec("constant", 0.1), 0, 0, ids, 3)
    assert np.array_equal(values, np.full((5, 3), 0.1, dtype=np.float32))


@settings(max_examples=50, deadline=None)
@given(
    spec=st.sampled_from(_SPECS),
    seed=st.integers(0, 2**70),
    table=st.integers(0, 100),
    ids=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=40),
    order=st.randoms(use_true_random=False),
)
def test_is_a_function_of_seed_table_id_and_column(
    spec, seed, table, ids, order
):
    whole = initial_rows(spec, seed, table, np.array(ids, np.int64), 8)
    shuffled = list(range(len(ids)))
    order.shuffle(shuffled)
    again = initial_rows(
        spec, seed, table, np.array([ids[i] for i in shuffled], np.int64), 8
    )
    assert np.array_equal(whole[shuffled], again)
    # A narrower table's columns are the first ones.
    narrow = initial_rows(spec, seed, table, np.array(ids, np.int64), 3)
    assert np.array_equal(whole[:, :3], narrow)


@pytest.mark.parametrize("spec", _SPECS[1:], ids=lambda s: s.name)
def test_differs_by_seed_table_id_and_column(spec):
    ids = np.array([0, 1, -1, 2**40], dtype=np.int64)
    values = np.concatenate(
        [
            initial_rows(spec, seed, table, ids, 4).reshape(-1)
            for seed in (0, 1, 2**33)
            for table in (0, 1)
        ]
    )
    assert len(np.unique(values)) == len(values)


def test_bits_stay_the_same_between_releases():
    # Rows that were never trained must not change under a saved job.
    ids = np.array([7, -7], dtype=np.int64)
    bits = [
        initial_rows(spec, 42, 3, ids, 2).view(np.uint32).tolist()
        for spec in _SPECS[1:]
    ]
    assert bits == _BITS


@pytest.mark.parametrize("exponent", range(-300, 0, 7))
def test_inverse_normal_to_full_double_accuracy(exponent):
    for p in (10.0**exponent, 0.3 * 10.0**exponent):
        expected = _NORMAL.inv_cdf(p)
        assert math.isclose(inverse_normal.py_func(p), expected, rel_tol=1e-15)
        assert math.isclose(inverse_normal(p), expected, rel_tol=1e-15)


def test_inverse_normal_undoes_the_distribution():
    for z in np.linspace(-5, 5, 101):
        p = 0.5 * math.erfc(-z / math.sqrt(2))
        assert math.isclose(inverse_normal(p), z, rel_tol=1e-9, abs_tol=1e-15)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (InitializerSpec("orthogonal"), "one of constant, uniform.*orthogonal"),
        (InitializerSpec("uniform", math.nan, 1.0), "a=nan"),
        (InitializerSpec("normal", 0.0, -1.0), "b=-1.0"),
    ],
)
def test_refuses_what_it_does_not_know(spec, message):
    with pytest.raises(ValueError, match=message):
        initial_rows(spec, 0, 0, np.zeros(1, np.int64), 2)
