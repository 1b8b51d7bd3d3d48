"""Adagrad: gradients divided by the root of the sum of their squares.

References:
    Duchi, Hazan, Singer: Adaptive subgradient methods for online learning
    and stochastic optimization, JMLR 12, 2011, equation 1 (diagonal form).
"""

import math
from collections.abc import Mapping

import numpy as np
from numba import njit

from elastic_keras.ps.optimizers.types import Algorithm, Slot, packed

KIND = 2


def _slots(hyper: Mapping[str, float]) -> tuple[Slot, ...]:
    return (Slot("accumulator", hyper["initial_accumulator_value"]),)


def _pack(hyper: Mapping[str, float]) -> np.ndarray:
    return packed(hyper["epsilon"])


ALGORITHM = Algorithm(
    name="adagrad",
    kind=KIND,
    defaults={"initial_accumulator_value": 0.1, "epsilon": 1e-7},
    slots=_slots,
    pack=_pack,
    ranges={"initial_accumulator_value": (0.0, math.inf)},
)


@njit(nogil=True, cache=True, error_model="numpy")
def update(data, w, stride, product, grads, g, n, hyper, rate, count):  # type: ignore[no-untyped-def]
    """s += g^2; w -= rate g / sqrt(s + epsilon)."""
    epsilon = hyper[0]
    s = w + stride
    for i in range(n):
        gradient = grads[g + i]
        total = data[s + i] + gradient * gradient
        data[s + i] = total
        data[w + i] -= rate * gradient / np.sqrt(total + epsilon)
