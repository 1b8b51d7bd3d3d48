"""Stochastic gradient descent with momentum.

References:
    Sutskever, Martens, Dahl, Hinton: On the importance of initialization and
    momentum in deep learning, ICML 2013, equations 1-2 (momentum) and 3-4
    (Nesterov).
"""

from collections.abc import Mapping

import numpy as np
from numba import njit

from elastic_keras.ps.optimizers.types import ZERO, Algorithm, Slot, packed

KIND = 0


def _slots(hyper: Mapping[str, float]) -> tuple[Slot, ...]:
    return (Slot("momentum"),) if hyper["momentum"] else ()


def _pack(hyper: Mapping[str, float]) -> np.ndarray:
    return packed(hyper["momentum"], hyper["nesterov"])


ALGORITHM = Algorithm(
    name="sgd",
    kind=KIND,
    defaults={"momentum": 0.0, "nesterov": False},
    slots=_slots,
    pack=_pack,
    ranges={"momentum": (0.0, 1.0)},
)


@njit(nogil=True, cache=True, error_model="numpy")
def update(data, w, stride, product, grads, g, n, hyper, rate, count):  # type: ignore[no-untyped-def]
    """v = momentum v - rate g; w += v, or momentum v - rate g (Nesterov)."""
    momentum = hyper[0]
    if momentum == ZERO:
        for i in range(n):
            data[w + i] -= grads[g + i] * rate
        return
    m = w + stride
    if hyper[1] != ZERO:
        for i in range(n):
            step = grads[g + i] * rate
            velocity = data[m + i] * momentum - step
            data[m + i] = velocity
            data[w + i] += velocity * momentum - step
    else:
        for i in range(n):
            velocity = data[m + i] * momentum - grads[g + i] * rate
            data[m + i] = velocity
            data[w + i] += velocity
