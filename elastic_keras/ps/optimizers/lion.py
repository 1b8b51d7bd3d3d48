"""Lion: the sign of an interpolated momentum.

References:
    Chen et al.: Symbolic discovery of optimization algorithms, 2023,
    arXiv:2302.06675, algorithm 2.
"""

from collections.abc import Mapping

import numpy as np
from numba import njit

from elastic_keras.ps.optimizers.types import (
    ONE,
    ZERO,
    Algorithm,
    Slot,
    packed,
)

KIND = 8


def _slots(hyper: Mapping[str, float]) -> tuple[Slot, ...]:
    return (Slot("momentum"),)


def _pack(hyper: Mapping[str, float]) -> np.ndarray:
    return packed(hyper["beta_1"], hyper["beta_2"])


ALGORITHM = Algorithm(
    name="lion",
    kind=KIND,
    defaults={"beta_1": 0.9, "beta_2": 0.99},
    slots=_slots,
    pack=_pack,
    ranges={"beta_1": (1e-45, 1.0)},
)


@njit(nogil=True, cache=True, error_model="numpy")
def update(data, w, stride, product, grads, g, n, hyper, rate, count):  # type: ignore[no-untyped-def]
    """w -= rate sign(beta_1 m + (1 - beta_1) g); m follows with beta_2."""
    beta_1, beta_2 = hyper[0], hyper[1]
    rest_1, rest_2 = ONE - beta_1, ONE - beta_2
    m = w + stride
    for i in range(n):
        gradient = grads[g + i]
        mean = data[m + i]
        direction = mean * beta_1 + gradient * rest_1
        sign = ONE if direction > ZERO else (-ONE if direction < ZERO else ZERO)
        data[w + i] -= rate * sign
        data[m + i] = mean * beta_2 + gradient * rest_2
