"""Adadelta: steps in the units of the parameters.

References:
    Zeiler: ADADELTA: an adaptive learning rate method, 2012,
    arXiv:1212.5701, algorithm 1, equations 10 and 14.
"""

from collections.abc import Mapping

import numpy as np
from numba import njit

from elastic_keras.ps.optimizers.types import Algorithm, Slot, packed

KIND = 3


def _slots(hyper: Mapping[str, float]) -> tuple[Slot, ...]:
    return (Slot("accumulated_grad"), Slot("accumulated_delta_var"))


def _pack(hyper: Mapping[str, float]) -> np.ndarray:
    return packed(hyper["rho"], 1 - hyper["rho"], hyper["epsilon"])


ALGORITHM = Algorithm(
    name="adadelta",
    kind=KIND,
    defaults={"rho": 0.95, "epsilon": 1e-7},
    slots=_slots,
    pack=_pack,
)


@njit(nogil=True, cache=True, error_model="numpy")
def update(data, w, stride, product, grads, g, n, hyper, rate, count):  # type: ignore[no-untyped-def]
    """w += rate d with d = -RMS(d) / RMS(g) g."""
    rho, rest, epsilon = hyper[0], hyper[1], hyper[2]
    s = w + stride
    d = s + stride
    for i in range(n):
        gradient = grads[g + i]
        squares = rho * data[s + i] + rest * (gradient * gradient)
        data[s + i] = squares
        delta = -(
            np.sqrt(data[d + i] + epsilon)
            * gradient
            / np.sqrt(squares + epsilon)
        )
        data[d + i] = rho * data[d + i] + rest * (delta * delta)
        data[w + i] += rate * delta
