"""Keras constraints as what the shards keep after each update."""

from typing import Any

import keras

from elastic_keras.config import ConfigError
from elastic_keras.signature import ConstraintSpec

_SUPPORTED = "NonNeg, MaxNorm, UnitNorm, MinMaxNorm"


def constraint_spec(constraint: Any, name: str) -> ConstraintSpec | None:
    """Returns what shards keep for a variable's constraint.

    Args:
        constraint: A Keras constraint or `None`.
        name: The variable, for messages.

    Raises:
        ConfigError: Shards cannot compute this constraint.
    """
    known = keras.constraints
    kind = type(constraint)
    if constraint is None:
        return None
    if kind is known.NonNeg:
        return ConstraintSpec("non_neg")
    if kind is known.MaxNorm:
        return ConstraintSpec(
            "max_norm",
            max_value=float(constraint.max_value),
            axes=_axes(constraint.axis),
        )
    if kind is known.UnitNorm:
        return ConstraintSpec("unit_norm", axes=_axes(constraint.axis))
    if kind is known.MinMaxNorm:
        return ConstraintSpec(
            "min_max_norm",
            min_value=float(constraint.min_value),
            max_value=float(constraint.max_value),
            rate=float(constraint.rate),
            axes=_axes(constraint.axis),
        )
    raise ConfigError(
        f"Shards keep the Keras constraints {_SUPPORTED}; {name!r} has "
        f"another. Received: constraint={kind.__name__}"
    )


def row_constraint_spec(constraint: Any, name: str) -> ConstraintSpec | None:
    """Returns the same for a table, whose rows lie on different shards.

    Args:
        constraint: A Keras constraint of the (rows, dim) matrix, or `None`.
        name: The layer, for messages.

    Raises:
        ConfigError: As above, or a norm is taken across rows.
    """
    spec = constraint_spec(constraint, name)
    if spec is None or spec.name == "non_neg":
        return spec
    if tuple(axis % 2 for axis in spec.axes) != (1,):
        raise ConfigError(
            f"Norms of an embedding's rows are taken along axis 1; layer "
            f"{name!r} would need all rows at once. "
            f"Received: embeddings_constraint axis={constraint.axis!r}"
        )
    return ConstraintSpec(
        spec.name, spec.min_value, spec.max_value, spec.rate, (1,)
    )


def _axes(axis: Any) -> tuple[int, ...]:
    return tuple(axis) if isinstance(axis, list | tuple) else (int(axis),)
