"""Adam, AMSGrad and AdamW.

References:
    Kingma, Ba: Adam: a method for stochastic optimization, ICLR 2015,
    arXiv:1412.6980, algorithm 1 in the form of section 2's last paragraph.
    Reddi, Kale, Kumar: On the convergence of Adam and beyond, ICLR 2018,
    algorithm 2 (AMSGrad).
    Loshchilov, Hutter: Decoupled weight decay regularization, ICLR 2019,
    arXiv:1711.05101, algorithm 2 (AdamW; the decay itself is in `kernels`).
"""

import dataclasses
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

KIND = 4


def _slots(hyper: Mapping[str, float]) -> tuple[Slot, ...]:
    slots = (Slot("momentum"), Slot("velocity"))
    return (*slots, Slot("velocity_hat")) if hyper["amsgrad"] else slots


def _pack(hyper: Mapping[str, float]) -> np.ndarray:
    beta_1, beta_2 = hyper["beta_1"], hyper["beta_2"]
    return packed(
        beta_1,
        1 - beta_1,
        beta_2,
        1 - beta_2,
        hyper["epsilon"],
        hyper["amsgrad"],
    )


ADAM = Algorithm(
    name="adam",
    kind=KIND,
    defaults={
        "beta_1": 0.9,
        "beta_2": 0.999,
        "epsilon": 1e-7,
        "amsgrad": False,
    },
    slots=_slots,
    pack=_pack,
    has_count=True,
)
ADAMW = dataclasses.replace(ADAM, name="adamw")


@njit(nogil=True, cache=True, error_model="numpy")
def update(data, w, stride, product, grads, g, n, hyper, rate, count):  # type: ignore[no-untyped-def]
    """w -= alpha m / (sqrt(v) + epsilon), alpha corrected for bias."""
    rest_1, rest_2, epsilon = hyper[1], hyper[3], hyper[4]
    t = np.float32(count + 1)
    alpha = rate * np.sqrt(ONE - hyper[2] ** t) / (ONE - hyper[0] ** t)
    m = w + stride
    v = m + stride
    if hyper[5] == ZERO:
        for i in range(n):
            gradient = grads[g + i]
            mean = data[m + i] + (gradient - data[m + i]) * rest_1
            square = data[v + i] + (gradient * gradient - data[v + i]) * rest_2
            data[m + i] = mean
            data[v + i] = square
            data[w + i] -= mean * alpha / (np.sqrt(square) + epsilon)
        return
    h = v + stride
    for i in range(n):
        gradient = grads[g + i]
        mean = data[m + i] + (gradient - data[m + i]) * rest_1
        square = data[v + i] + (gradient * gradient - data[v + i]) * rest_2
        data[m + i] = mean
        data[v + i] = square
        largest = max(data[h + i], square)
        data[h + i] = largest
        data[w + i] -= mean * alpha / (np.sqrt(largest) + epsilon)
