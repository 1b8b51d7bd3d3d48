"""An `OptimizerSpec`, checked and laid out for the kernels."""

import dataclasses
import math

import numpy as np

from elastic_keras.ps.optimizers import (
    adadelta,
    adagrad,
    adam,
    adamax,
    ftrl,
    kernels,
    lion,
    nadam,
    rmsprop,
    sgd,
)
from elastic_keras.ps.optimizers.types import Algorithm, Slot
from elastic_keras.signature import OptimizerSpec

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        sgd.ALGORITHM,
        rmsprop.ALGORITHM,
        adagrad.ALGORITHM,
        adadelta.ALGORITHM,
        adam.ADAM,
        adam.ADAMW,
        adamax.ALGORITHM,
        nadam.ALGORITHM,
        ftrl.ALGORITHM,
        lion.ALGORITHM,
    )
}
AVERAGE = "average"


@dataclasses.dataclass(frozen=True)
class OptimizerPlan:
    """An optimizer as the kernels read it.

    Args:
        slots: Its slots in order; the moving average, if any, is last.
        has_count: Whether a row keeps a count of its updates.
        has_product: Whether a row keeps a running product.
        numbers: `plan` of the kernels, int64.
        hyper: `hyper` of the kernels, float32.
        common: `common` of the kernels, float32.
    """

    slots: tuple[Slot, ...]
    has_count: bool
    has_product: bool
    numbers: np.ndarray
    hyper: np.ndarray
    common: np.ndarray

    @classmethod
    def from_spec(
        cls, spec: OptimizerSpec, *, weight_decay: bool = True
    ) -> "OptimizerPlan":
        """Checks a spec and lays it out.

        Args:
            spec: The optimizer.
            weight_decay: Whether its weight decay applies here.

        Raises:
            ValueError: An unknown algorithm or option, or a value out of
                range.
        """
        algorithm = _algorithm(spec)
        hyper = _options(algorithm, spec)
        _check_common(spec)
        slots = algorithm.slots(hyper)
        if spec.use_ema:
            slots = (*slots, Slot(AVERAGE))
        has_count = algorithm.has_count or algorithm.has_product or spec.use_ema
        numbers = np.zeros(kernels.PLAN_SIZE, dtype=np.int64)
        numbers[kernels.KIND] = algorithm.kind
        numbers[kernels.NUM_SLOTS] = len(slots)
        numbers[kernels.HAS_DECAY] = (
            weight_decay and spec.weight_decay is not None
        )
        numbers[kernels.EMA_SLOT] = len(slots) - 1 if spec.use_ema else -1
        numbers[kernels.EMA_FREQUENCY] = spec.ema_overwrite_frequency or 0
        numbers[kernels.HAS_COUNT] = has_count
        common = np.zeros(kernels.COMMON_SIZE, dtype=np.float32)
        common[kernels.DECAY] = spec.weight_decay or 0.0
        common[kernels.EMA_MOMENTUM] = spec.ema_momentum
        return cls(
            slots=slots,
            has_count=has_count,
            has_product=algorithm.has_product,
            numbers=numbers,
            hyper=algorithm.pack(hyper),
            common=common,
        )

    @property
    def ema_slot(self) -> int:
        """Number of the moving average's slot, -1 without one."""
        return int(self.numbers[kernels.EMA_SLOT])


def _algorithm(spec: OptimizerSpec) -> Algorithm:
    if spec.name not in ALGORITHMS:
        raise ValueError(
            f"An optimizer is one of {', '.join(ALGORITHMS)}. "
            f"Received: name={spec.name!r}"
        )
    return ALGORITHMS[spec.name]


def _options(algorithm: Algorithm, spec: OptimizerSpec) -> dict[str, float]:
    for name, value in spec.hyper.items():
        if name not in algorithm.defaults:
            raise ValueError(
                f"The options of {algorithm.name} are "
                f"{', '.join(algorithm.defaults)}. "
                f"Received: {name}={value!r}"
            )
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(
                f"An option of {algorithm.name} is a finite number. "
                f"Received: {name}={value!r}"
            )
        low, high = algorithm.ranges.get(name, (-math.inf, math.inf))
        if not low <= value <= high:
            raise ValueError(
                f"An option of {algorithm.name} is out of its range "
                f"[{low}, {high}]. Received: {name}={value!r}"
            )
    return {**algorithm.defaults, **spec.hyper}


def _check_common(spec: OptimizerSpec) -> None:
    if spec.weight_decay is not None and not math.isfinite(spec.weight_decay):
        raise ValueError(
            "The weight decay is a finite number. "
            f"Received: weight_decay={spec.weight_decay!r}"
        )
    if spec.use_ema and not 0 <= spec.ema_momentum <= 1:
        raise ValueError(
            "The momentum of the moving average is between 0 and 1. "
            f"Received: ema_momentum={spec.ema_momentum!r}"
        )
    frequency = spec.ema_overwrite_frequency
    if frequency is not None and (type(frequency) is not int or frequency < 1):
        raise ValueError(
            "The average overwrites after at least 1 iteration. "
            f"Received: ema_overwrite_frequency={frequency!r}"
        )
