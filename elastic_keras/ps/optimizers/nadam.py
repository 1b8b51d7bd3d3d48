"""Nadam: Adam with Nesterov momentum on a warming schedule.

The product of all momentum values so far is kept beside the slots: once a
slice of a dense parameter, once a row of a table.

References:
    Dozat: Incorporating Nesterov momentum into Adam, ICLR 2016 workshop,
    algorithm 2, with the schedule mu_t = beta_1 (1 - 0.96^t / 2).
"""

from collections.abc import Mapping

import numpy as np
from numba import njit

from elastic_keras.ps.optimizers.types import (
    HALF,
    ONE,
    Algorithm,
    Slot,
    packed,
)

KIND = 6
_DECAY = np.float32(0.96)


def _slots(hyper: Mapping[str, float]) -> tuple[Slot, ...]:
    return (Slot("momentum"), Slot("velocity"))


def _pack(hyper: Mapping[str, float]) -> np.ndarray:
    return packed(hyper["beta_1"], hyper["beta_2"], hyper["epsilon"])


ALGORITHM = Algorithm(
    name="nadam",
    kind=KIND,
    defaults={"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
    slots=_slots,
    pack=_pack,
    has_count=True,
    has_product=True,
)


@njit(nogil=True, cache=True, error_model="numpy")
def update(data, w, stride, product, grads, g, n, hyper, rate, count):  # type: ignore[no-untyped-def]
    """w -= rate m' / (sqrt(v') + epsilon), both corrected for bias."""
    beta_1, beta_2, epsilon = hyper[0], hyper[1], hyper[2]
    # Unlike in Adam the complements are taken in float32.
    rest_1, rest_2 = ONE - beta_1, ONE - beta_2
    t = np.float32(count + 1)
    warming = ONE - HALF * _DECAY**t
    momentum = beta_1 * warming
    next_momentum = beta_1 * (ONE - HALF * _DECAY ** np.float32(count + 2))
    so_far = data[product] * beta_1 * warming
    data[product] = so_far
    mean_rest = ONE - so_far * next_momentum
    gradient_rest = ONE - so_far
    gradient_share = ONE - momentum
    square_rest = ONE - beta_2**t
    m = w + stride
    v = m + stride
    for i in range(n):
        gradient = grads[g + i]
        mean = data[m + i] + (gradient - data[m + i]) * rest_1
        square = data[v + i] + (gradient * gradient - data[v + i]) * rest_2
        data[m + i] = mean
        data[v + i] = square
        ahead = (
            next_momentum * mean / mean_rest
            + gradient_share * gradient / gradient_rest
        )
        data[w + i] -= ahead * rate / (np.sqrt(square / square_rest) + epsilon)
