"""What every optimizer module offers.

An algorithm's numbers live in one float32 array, so that the kernels of
every algorithm have the same signature:

    update(data, w, stride, product, grads, g, n, hyper, rate, count)

    data: The buffer of parameters and slots, float32; like `grads` and
        `hyper` the bare address of an array (`ps.pointers`).
    w: Where the n parameters begin in it; slot k begins at
        `w + (k + 1) * stride`.
    stride: Elements between a parameter and its first slot, and between
        slots.
    product: Where the algorithm's one running number begins in `data`; only
        read by algorithms with `has_product`.
    grads, g: The gradients, and where the n of these parameters begin.
    n: Number of parameters.
    hyper: The algorithm's options as `pack` lays them out.
    rate: The learning rate, float32.
    count: Updates of these parameters before this one.

Positions are unsigned: numba then leaves out its test for negative indices,
and the loops become vector instructions.
"""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np

ZERO = np.float32(0)
HALF = np.float32(0.5)
ONE = np.float32(1)
TWO = np.float32(2)


@dataclasses.dataclass(frozen=True)
class Slot:
    """A slot of an algorithm: its name and the value it begins with."""

    name: str
    initial_value: float = 0.0


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """An optimizer's description; its arithmetic is `update` of its module.

    Args:
        name: Its name in `OptimizerSpec`.
        kind: Its number in `kernels.update`.
        defaults: Its options with Keras's defaults.
        slots: Slots for given options.
        pack: Options as the kernel reads them, float32.
        has_count: Whether the update depends on the number of updates.
        has_product: Whether it keeps one running number, 1 at first.
        ranges: Least and largest value of an option, where it has them.
    """

    name: str
    kind: int
    defaults: Mapping[str, float]
    slots: Callable[[Mapping[str, float]], tuple[Slot, ...]]
    pack: Callable[[Mapping[str, float]], np.ndarray]
    has_count: bool = False
    has_product: bool = False
    ranges: Mapping[str, tuple[float, float]] = dataclasses.field(
        default_factory=dict
    )


def packed(*values: float) -> np.ndarray:
    """Returns the values in float32, as Keras casts its Python numbers."""
    return np.array(values, dtype=np.float32)
