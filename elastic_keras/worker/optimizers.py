"""Keras optimizers as what the shards run and what the worker clips."""

import dataclasses
import re
from typing import Any

import keras
import numpy as np

from elastic_keras.config import ConfigError
from elastic_keras.signature import OptimizerSpec, ScheduleSpec

# The options of each algorithm itself, under Keras's names.
_HYPER: dict[str, tuple[str, ...]] = {
    "SGD": ("momentum", "nesterov"),
    "RMSprop": ("rho", "momentum", "epsilon", "centered"),
    "Adagrad": ("initial_accumulator_value", "epsilon"),
    "Adadelta": ("rho", "epsilon"),
    "Adam": ("beta_1", "beta_2", "epsilon", "amsgrad"),
    "AdamW": ("beta_1", "beta_2", "epsilon", "amsgrad"),
    "Adamax": ("beta_1", "beta_2", "epsilon"),
    "Nadam": ("beta_1", "beta_2", "epsilon"),
    "Ftrl": (
        "learning_rate_power",
        "initial_accumulator_value",
        "l1_regularization_strength",
        "l2_regularization_strength",
        "l2_shrinkage_regularization_strength",
        "beta",
    ),
    "Lion": ("beta_1", "beta_2"),
}

_SCHEDULES = (
    "ExponentialDecay",
    "PiecewiseConstantDecay",
    "PolynomialDecay",
    "InverseTimeDecay",
    "CosineDecay",
    "CosineDecayRestarts",
)


@dataclasses.dataclass(frozen=True)
class Clipping:
    """How a worker clips the gradients of one optimizer.

    Args:
        clipnorm: Largest norm of one variable's gradient, or `None`.
        global_clipnorm: Largest norm of all gradients together, or `None`.
        clipvalue: Largest absolute value of an element, or `None`.
    """

    clipnorm: float | None = None
    global_clipnorm: float | None = None
    clipvalue: float | None = None


@dataclasses.dataclass(frozen=True)
class LossScale:
    """What a worker multiplies the loss by before it is differentiated.

    Args:
        initial: The scale, or the first scale of a dynamic one.
        growth_steps: Finite steps before a dynamic scale doubles; `None`
            for a fixed scale.
    """

    initial: float
    growth_steps: int | None = None


def unwrap(optimizer: Any) -> Any:
    """Returns the optimizer inside a LossScaleOptimizer, else itself."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return unwrap(optimizer.inner_optimizer)
    return optimizer


def loss_scale(optimizer: Any, model: Any) -> LossScale | None:
    """Returns the loss scale that Keras would train with, or `None`.

    As in `Model.compile`, a model of policy `mixed_float16` gets a dynamic
    scale.
    """
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return LossScale(
            float(optimizer.initial_scale), int(optimizer.dynamic_growth_steps)
        )
    if model.dtype_policy.name == "mixed_float16":
        return LossScale(2.0**15, 2000)
    factor = getattr(optimizer, "loss_scale_factor", None)
    return None if factor is None else LossScale(float(factor))


def clipping(optimizer: Any) -> Clipping:
    """Returns how gradients of a Keras optimizer are clipped."""
    return Clipping(
        clipnorm=_positive(optimizer.clipnorm),
        global_clipnorm=_positive(optimizer.global_clipnorm),
        clipvalue=_positive(optimizer.clipvalue),
    )


def _positive(value: Any) -> float | None:
    # Keras clips by positive values only.
    return float(value) if value and value > 0 else None


def optimizer_spec(optimizer: Any) -> OptimizerSpec:
    """Returns what the shards run for a Keras optimizer.

    Raises:
        ConfigError: It is none of Keras's own optimizers that shards know,
            or uses an option that they lack.
    """
    name = type(optimizer).__name__
    kind = getattr(keras.optimizers, name, None)
    # A subclass of the same name may do anything.
    if name not in _HYPER or type(optimizer) is not kind:
        raise ConfigError(
            f"Shards run the Keras optimizers {', '.join(_HYPER)}. "
            f"Received: optimizer={name}"
        )
    if optimizer.gradient_accumulation_steps:
        raise ConfigError(
            "Shards do not accumulate gradients of one worker; use "
            "--grads_to_wait or a larger batch. Received: "
            "gradient_accumulation_steps="
            f"{optimizer.gradient_accumulation_steps!r}"
        )
    rate, schedule = _learning_rate(optimizer)
    decay = optimizer.weight_decay
    return OptimizerSpec(
        name=name.lower(),
        learning_rate=rate,
        schedule=schedule,
        hyper={key: float(getattr(optimizer, key)) for key in _HYPER[name]},
        # False and 0 mean none, as in Keras.
        weight_decay=float(decay) if decay else None,
        use_ema=bool(optimizer.use_ema),
        ema_momentum=float(optimizer.ema_momentum),
        ema_overwrite_frequency=optimizer.ema_overwrite_frequency or None,
    )


def _learning_rate(optimizer: Any) -> tuple[float, ScheduleSpec | None]:
    schedule = optimizer._learning_rate
    if isinstance(schedule, keras.Variable):
        return float(np.asarray(schedule)), None
    name = type(schedule).__name__
    kind = getattr(keras.optimizers.schedules, name, None)
    if name not in _SCHEDULES or type(schedule) is not kind:
        raise ConfigError(
            "A learning rate is a number or one of Keras's schedules "
            f"{', '.join(_SCHEDULES)}. Received: learning_rate={name}"
        )
    first = float(np.asarray(schedule(0)))
    return first, ScheduleSpec(name, schedule.get_config())


def decays(optimizer: Any, variable: Any) -> bool:
    """Returns whether the optimizer's weight decay applies to a variable.

    Args:
        optimizer: Keras optimizer; `exclude_from_weight_decay` counts.
        variable: Keras variable.
    """
    keys = getattr(optimizer, "_exclude_from_weight_decay", None) or set()
    if optimizer._var_key(variable) in keys:
        return False
    return decays_name(optimizer, variable.name)


def decays_name(optimizer: Any, name: str) -> bool:
    """Returns the same for a table, which Keras would call `name`."""
    pattern = getattr(optimizer, "_exclude_from_weight_decay_pattern", None)
    return pattern is None or re.search(pattern, name) is None
