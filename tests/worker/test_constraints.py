import keras
import pytest

from elastic_keras.config import ConfigError
from elastic_keras.signature import ConstraintSpec
from elastic_keras.worker.constraints import (
    constraint_spec,
    row_constraint_spec,
)

known = keras.constraints


@pytest.mark.parametrize(
    ("constraint", "spec"),
    [
        (None, None),
        (known.NonNeg(), ConstraintSpec("non_neg")),
        (known.MaxNorm(3), ConstraintSpec("max_norm", max_value=3.0)),
        (
            known.UnitNorm(axis=[0, 1, 2]),
            ConstraintSpec("unit_norm", axes=(0, 1, 2)),
        ),
        (
            known.MinMaxNorm(0.5, 2, 0.75, axis=1),
            ConstraintSpec("min_max_norm", 0.5, 2.0, 0.75, (1,)),
        ),
    ],
)
def test_constraints_of_dense_parameters(constraint, spec):
    assert constraint_spec(constraint, "kernel") == spec


@pytest.mark.parametrize("axis", [1, -1, [1]])
def test_norms_of_rows(axis):
    spec = row_constraint_spec(known.MaxNorm(3, axis=axis), "ids")
    assert spec == ConstraintSpec("max_norm", max_value=3.0, axes=(1,))
    assert row_constraint_spec(known.NonNeg(), "ids") == ConstraintSpec(
        "non_neg"
    )
    assert row_constraint_spec(None, "ids") is None


def test_refuses_norms_across_rows():
    for axis in (0, [0, 1]):
        with pytest.raises(ConfigError, match=r"along axis 1.*'ids'.*axis="):
            row_constraint_spec(known.UnitNorm(axis), "ids")


def test_refuses_what_shards_cannot_keep():
    class Mine(known.NonNeg):
        pass

    with pytest.raises(ConfigError, match=r"NonNeg, MaxNorm.*'kernel'.*Mine"):
        constraint_spec(Mine(), "kernel")
