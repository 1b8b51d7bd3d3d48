"""RMSprop: gradients divided by a running root of their mean square.

References:
    Hinton, Srivastava, Swersky: Neural networks for machine learning,
    lecture 6e, 2012 (plain form).
    Graves: Generating sequences with recurrent neural networks, 2013,
    arXiv:1308.0850, equations 38-41 (centered form with momentum).
"""

import math
from collections.abc import Mapping

import numpy as np
from numba import njit

from elastic_keras.ps.optimizers.types import ZERO, Algorithm, Slot, packed

KIND = 1


def _slots(hyper: Mapping[str, float]) -> tuple[Slot, ...]:
    slots = [Slot("velocity")]
    if hyper["momentum"] > 0:
        slots.append(Slot("momentum"))
    if hyper["centered"]:
        slots.append(Slot("average_gradient"))
    return tuple(slots)


def _pack(hyper: Mapping[str, float]) -> np.ndarray:
    rho = hyper["rho"]
    return packed(
        rho, 1 - rho, hyper["momentum"], hyper["epsilon"], hyper["centered"]
    )


ALGORITHM = Algorithm(
    name="rmsprop",
    kind=KIND,
    defaults={
        "rho": 0.9,
        "momentum": 0.0,
        "epsilon": 1e-7,
        "centered": False,
    },
    slots=_slots,
    pack=_pack,
    ranges={"momentum": (0.0, math.inf)},
)


@njit(nogil=True, cache=True, error_model="numpy")
def update(data, w, stride, product, grads, g, n, hyper, rate, count):  # type: ignore[no-untyped-def]
    """w -= rate g / sqrt(v - a^2 + epsilon), with momentum if asked."""
    rho, rest, momentum, epsilon = hyper[0], hyper[1], hyper[2], hyper[3]
    centered = hyper[4] != ZERO
    v = w + stride
    m = v + stride
    a = m + stride if momentum > ZERO else m
    if not centered and not momentum > ZERO:
        for i in range(n):
            gradient = grads[g + i]
            velocity = rho * data[v + i] + rest * (gradient * gradient)
            data[v + i] = velocity
            data[w + i] -= rate * gradient / np.sqrt(velocity + epsilon)
        return
    for i in range(n):
        gradient = grads[g + i]
        velocity = rho * data[v + i] + rest * (gradient * gradient)
        data[v + i] = velocity
        if centered:
            average = rho * data[a + i] + rest * gradient
            data[a + i] = average
            velocity = velocity - average * average
        step = rate * gradient / np.sqrt(velocity + epsilon)
        if momentum > ZERO:
            step = momentum * data[m + i] + step
            data[m + i] = step
        data[w + i] -= step
