"""Adamax: Adam with the infinity norm.

References:
    Kingma, Ba: Adam: a method for stochastic optimization, ICLR 2015,
    arXiv:1412.6980, algorithm 2.
"""

from collections.abc import Mapping

import numpy as np
from numba import njit

from elastic_keras.ps.optimizers.types import ONE, Algorithm, Slot, packed

KIND = 5


def _slots(hyper: Mapping[str, float]) -> tuple[Slot, ...]:
    return (Slot("momentum"), Slot("norm"))


def _pack(hyper: Mapping[str, float]) -> np.ndarray:
    beta_1 = hyper["beta_1"]
    return packed(beta_1, 1 - beta_1, hyper["beta_2"], hyper["epsilon"])


ALGORITHM = Algorithm(
    name="adamax",
    kind=KIND,
    defaults={"beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7},
    slots=_slots,
    pack=_pack,
    has_count=True,
)


@njit(nogil=True, cache=True, error_model="numpy")
def update(data, w, stride, product, grads, g, n, hyper, rate, count):  # type: ignore[no-untyped-def]
    """u = max(beta_2 u, |g|); w -= rate m / ((1 - beta_1^t) (u + epsilon))."""
    rest_1, beta_2, epsilon = hyper[1], hyper[2], hyper[3]
    correction = ONE - hyper[0] ** np.float32(count + 1)
    m = w + stride
    u = m + stride
    for i in range(n):
        gradient = grads[g + i]
        mean = data[m + i] + (gradient - data[m + i]) * rest_1
        norm = max(beta_2 * data[u + i], abs(gradient))
        data[m + i] = mean
        data[u + i] = norm
        data[w + i] -= rate * mean / (correction * (norm + epsilon))
