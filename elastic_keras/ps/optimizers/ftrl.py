"""FTRL-Proximal with L1, L2 and shrinkage.

References:
    McMahan et al.: Ad click prediction: a view from the trenches, KDD 2013,
    algorithm 1 (per-coordinate FTRL-Proximal with L1 and L2, and beta).
"""

import math
from collections.abc import Mapping

import numpy as np
from numba import njit

from elastic_keras.ps.optimizers.types import HALF, TWO, Algorithm, Slot, packed

KIND = 7
_POSITIVE = (0.0, math.inf)


def _slots(hyper: Mapping[str, float]) -> tuple[Slot, ...]:
    return (
        Slot("accumulator", hyper["initial_accumulator_value"]),
        Slot("linear"),
    )


def _pack(hyper: Mapping[str, float]) -> np.ndarray:
    return packed(
        -hyper["learning_rate_power"],
        hyper["l1_regularization_strength"],
        hyper["l2_regularization_strength"],
        2 * hyper["l2_shrinkage_regularization_strength"],
        hyper["beta"],
    )


ALGORITHM = Algorithm(
    name="ftrl",
    kind=KIND,
    defaults={
        "learning_rate_power": -0.5,
        "initial_accumulator_value": 0.1,
        "l1_regularization_strength": 0.0,
        "l2_regularization_strength": 0.0,
        "l2_shrinkage_regularization_strength": 0.0,
        "beta": 0.0,
    },
    slots=_slots,
    pack=_pack,
    ranges={
        "learning_rate_power": (-math.inf, 0.0),
        "initial_accumulator_value": _POSITIVE,
        "l1_regularization_strength": _POSITIVE,
        "l2_regularization_strength": _POSITIVE,
        "l2_shrinkage_regularization_strength": _POSITIVE,
    },
)


@njit(nogil=True, cache=True, error_model="numpy")
def update(data, w, stride, product, grads, g, n, hyper, rate, count):  # type: ignore[no-untyped-def]
    """w = (clip(z, l1) - z) / (accumulator^power / rate + 2 l2)."""
    power, l1, shrinkage = hyper[0], hyper[1], hyper[3]
    twice_l2 = TWO * (hyper[2] + hyper[4] / (TWO * rate))
    s = w + stride
    z = s + stride
    for i in range(n):
        gradient = grads[g + i]
        weight = data[w + i]
        before = data[s + i]
        after = before + gradient * gradient
        if power == HALF:
            root_after, root_before = np.sqrt(after), np.sqrt(before)
        else:
            root_after, root_before = after**power, before**power
        linear = data[z + i] + (
            (gradient + shrinkage * weight)
            - (root_after - root_before) / rate * weight
        )
        data[z + i] = linear
        clipped = min(max(linear, -l1), l1)
        data[w + i] = (clipped - linear) / (root_after / rate + twice_l2)
        data[s + i] = after
