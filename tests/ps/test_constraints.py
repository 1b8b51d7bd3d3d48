"""Constraints beside Keras's."""

import keras
import numpy as np
import pytest

from elastic_keras.ps.constraints import check, check_for_table, constrain
from elastic_keras.signature import ConstraintSpec

_SHAPES = [((6,), 0), ((6, 5), 0), ((6, 5), 1), ((6, 5), -1)]
_SHAPES += [((3, 3, 4, 5), (0, 1, 2)), ((2, 3, 4), (1, 2))]


def _axes(axis):
    return axis if isinstance(axis, tuple) else (axis,)


def _values(shape):
    values = np.random.default_rng(0).normal(size=shape)
    # One slice of zeros: norms that are nothing.
    values[0] = 0.0
    return values.astype(np.float32)


@pytest.mark.parametrize(("shape", "axis"), _SHAPES)
@pytest.mark.parametrize("name", ["max_norm", "unit_norm", "min_max_norm"])
def test_norms_follow_keras(name, shape, axis):
    values = _values(shape)
    constraints = keras.constraints
    theirs, ours = {
        "max_norm": (
            constraints.MaxNorm(0.8, axis=axis),
            ConstraintSpec(name, max_value=0.8, axes=_axes(axis)),
        ),
        "unit_norm": (
            constraints.UnitNorm(axis=axis),
            ConstraintSpec(name, axes=_axes(axis)),
        ),
        "min_max_norm": (
            constraints.MinMaxNorm(1.6, 1.9, 0.7, axis=axis),
            ConstraintSpec(
                name,
                min_value=1.6,
                max_value=1.9,
                rate=0.7,
                axes=_axes(axis),
            ),
        ),
    }[name]
    expected = np.asarray(theirs(values))
    got = constrain(values, ours)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=5e-7, atol=1e-9)
    assert not np.allclose(got, values)


def test_non_neg_follows_keras():
    values = _values((4, 3))
    got = constrain(values, ConstraintSpec("non_neg"))
    assert np.array_equal(got, np.asarray(keras.constraints.NonNeg()(values)))


@pytest.mark.parametrize("axes", [(1,), (-1,)])
def test_a_table_takes_norms_of_single_rows(axes):
    check_for_table(None)
    check_for_table(ConstraintSpec("non_neg"))
    check_for_table(ConstraintSpec("max_norm", max_value=1.0, axes=axes))


@pytest.mark.parametrize("axes", [(0,), (0, 1), (-2,), ()])
def test_a_table_refuses_norms_over_rows(axes):
    with pytest.raises(ValueError, match=r"axis=1.*unit_norm.*axes="):
        check_for_table(ConstraintSpec("unit_norm", axes=axes))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (ConstraintSpec("orthogonal"), "one of non_neg.*orthogonal"),
        (ConstraintSpec("max_norm", max_value=float("nan")), "nan"),
    ],
)
def test_refuses_what_it_does_not_know(spec, message):
    with pytest.raises(ValueError, match=message):
        check(spec)
