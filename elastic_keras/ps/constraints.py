"""Keras constraints on parameters after an update."""

import math

import numpy as np

from elastic_keras.signature import ConstraintSpec

NAMES = ("non_neg", "max_norm", "unit_norm", "min_max_norm")
_EPSILON = np.float32(1e-7)
_ZERO = np.float32(0)


def check(spec: ConstraintSpec | None) -> None:
    """Checks a constraint.

    Raises:
        ValueError: An unknown name, or values that are not finite.
    """
    if spec is None:
        return
    if spec.name not in NAMES:
        raise ValueError(
            f"A constraint is one of {', '.join(NAMES)}. "
            f"Received: name={spec.name!r}"
        )
    if not all(map(math.isfinite, (spec.min_value, spec.max_value, spec.rate))):
        raise ValueError(
            f"The values of a constraint are finite numbers. Received: {spec}"
        )


def check_for_table(spec: ConstraintSpec | None) -> None:
    """Checks a constraint on the rows of a table.

    A norm over axis 0 runs over all rows, on all shards, and would change
    rows that no gradient touched.

    Raises:
        ValueError: A bad constraint, or one that is not on single rows.
    """
    check(spec)
    if spec is None or spec.name == "non_neg":
        return
    if tuple(spec.axes) not in ((1,), (-1,)):
        raise ValueError(
            "A constraint on an embedding takes norms of single rows, "
            f"axis=1. Received: name={spec.name!r}, axes={spec.axes}"
        )


def constrain(values: np.ndarray, spec: ConstraintSpec) -> np.ndarray:
    """Computes what a constraint makes of values, in Keras's arithmetic.

    Args:
        values: float32, any shape.
        spec: The constraint; its axes count in `values`.

    Returns:
        float32, of the same shape.
    """
    if spec.name == "non_neg":
        return np.maximum(values, _ZERO)
    norms = np.sqrt(
        np.sum(np.square(values), axis=tuple(spec.axes), keepdims=True)
    )
    if spec.name == "unit_norm":
        return values / (_EPSILON + norms)
    if spec.name == "max_norm":
        desired = np.clip(norms, _ZERO, np.float32(spec.max_value))
    else:
        clipped = np.clip(
            norms, np.float32(spec.min_value), np.float32(spec.max_value)
        )
        rate, rest = np.float32(spec.rate), np.float32(1 - spec.rate)
        desired = rate * clipped + rest * norms
    return values * (desired / (_EPSILON + norms))
