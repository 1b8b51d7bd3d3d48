"""Learning rates, in the float32 arithmetic of Keras's schedules.

References:
    Loshchilov, Hutter: SGDR: stochastic gradient descent with warm restarts,
    ICLR 2017, arXiv:1608.03983, equation 5 (cosine decay and restarts).
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from elastic_keras.signature import OptimizerSpec, ScheduleSpec

_F = np.float32
_ZERO, _HALF, _ONE, _PI = map(_F, (0.0, 0.5, 1.0, math.pi))


def learning_rate(spec: OptimizerSpec, iteration: int) -> float:
    """Computes the learning rate of an update.

    Args:
        spec: The optimizer.
        iteration: Updates before this one.

    Raises:
        ValueError: An unknown schedule or a schedule's bad option.
    """
    if spec.schedule is None:
        return float(_F(spec.learning_rate))
    check(spec.schedule)
    schedule, defaults = _SCHEDULES[spec.schedule.name]
    config = {**defaults, **spec.schedule.config}
    return float(schedule(config, iteration))


def check(spec: ScheduleSpec) -> None:
    """Checks a schedule.

    Raises:
        ValueError: An unknown schedule or a schedule's bad option.
    """
    if spec.name not in _SCHEDULES:
        raise ValueError(
            f"A learning-rate schedule is one of {', '.join(_SCHEDULES)}. "
            f"Received: name={spec.name!r}"
        )
    _, defaults = _SCHEDULES[spec.name]
    needed = _NEEDED[spec.name]
    for name in spec.config:
        if name not in defaults and name not in needed and name != "name":
            raise ValueError(
                f"The options of {spec.name} are "
                f"{', '.join((*needed, *defaults))}. "
                f"Received: {name}={spec.config[name]!r}"
            )
    for name in needed:
        if spec.config.get(name) is None:
            raise ValueError(
                f"{spec.name} needs {', '.join(needed)}. "
                f"Received: config={spec.config}"
            )
        if name.endswith("decay_steps") and not spec.config[name] > 0:
            raise ValueError(
                f"{spec.name} decays over more than 0 steps. "
                f"Received: {name}={spec.config[name]!r}"
            )
    if spec.name == "PiecewiseConstantDecay":
        boundaries, values = spec.config["boundaries"], spec.config["values"]
        if not boundaries or len(boundaries) != len(values) - 1:
            raise ValueError(
                "PiecewiseConstantDecay has one value more than boundaries. "
                f"Received: boundaries={boundaries}, values={values}"
            )


def _exponential(config: Mapping[str, Any], iteration: int) -> np.float32:
    p = _F(iteration) / _F(config["decay_steps"])
    if config["staircase"]:
        p = np.floor(p)
    return _F(config["initial_learning_rate"]) * _F(config["decay_rate"]) ** p


def _piecewise(config: Mapping[str, Any], iteration: int) -> np.float32:
    # Keras casts the boundaries to the integer type of the iteration.
    passed = sum(iteration > int(b) for b in config["boundaries"])
    return _F(config["values"][passed])


def _polynomial(config: Mapping[str, Any], iteration: int) -> np.float32:
    first = _F(config["initial_learning_rate"])
    last = _F(config["end_learning_rate"])
    step, steps = _F(iteration), _F(config["decay_steps"])
    if config["cycle"]:
        steps *= _ONE if step == _ZERO else np.ceil(step / steps)
    else:
        step = min(step, steps)
    share = (_ONE - step / steps) ** _F(config["power"])
    return (first - last) * share + last


def _inverse_time(config: Mapping[str, Any], iteration: int) -> np.float32:
    p = _F(iteration) / _F(config["decay_steps"])
    if config["staircase"]:
        p = np.floor(p)
    first = _F(config["initial_learning_rate"])
    return first / (_ONE + _F(config["decay_rate"]) * p)


def _cosine(config: Mapping[str, Any], iteration: int) -> np.float32:
    first = _F(config["initial_learning_rate"])
    step, steps = _F(iteration), _F(config["decay_steps"])
    if config["warmup_target"] is None:
        step = min(step, steps)
    else:
        target = _F(config["warmup_target"])
        warmup = _F(config["warmup_steps"])
        step = min(step, steps + warmup)
        if step < warmup:
            return (target - first) * (step / warmup) + first
        step, first = step - warmup, target
    alpha = config["alpha"]
    decayed = _HALF * (_ONE + np.cos(_PI * (step / steps)))
    return first * (_F(1 - alpha) * decayed + _F(alpha))


def _cosine_restarts(config: Mapping[str, Any], iteration: int) -> np.float32:
    first, alpha = _F(config["initial_learning_rate"]), _F(config["alpha"])
    longer, lower = _F(config["t_mul"]), _F(config["m_mul"])
    done = _F(iteration) / _F(config["first_decay_steps"])
    if longer == _ONE:
        restarts = np.floor(done)
        done -= restarts
    else:
        restarts = np.floor(
            np.log(_ONE - done * (_ONE - longer)) / np.log(longer)
        )
        before = (_ONE - longer**restarts) / (_ONE - longer)
        done = (done - before) / longer**restarts
    height = _HALF * lower**restarts
    decayed = height * (_ONE + np.cos(_PI * done))
    return first * ((_ONE - alpha) * decayed + alpha)


_Schedule = Callable[[Mapping[str, Any], int], np.float32]
_SCHEDULES: dict[str, tuple[_Schedule, dict[str, Any]]] = {
    "ExponentialDecay": (_exponential, {"staircase": False}),
    "PiecewiseConstantDecay": (_piecewise, {}),
    "PolynomialDecay": (
        _polynomial,
        {"end_learning_rate": 0.0001, "power": 1.0, "cycle": False},
    ),
    "InverseTimeDecay": (_inverse_time, {"staircase": False}),
    "CosineDecay": (
        _cosine,
        {"alpha": 0.0, "warmup_target": None, "warmup_steps": 0},
    ),
    "CosineDecayRestarts": (
        _cosine_restarts,
        {"t_mul": 2.0, "m_mul": 1.0, "alpha": 0.0},
    ),
}
_NEEDED: dict[str, tuple[str, ...]] = {
    "ExponentialDecay": (
        "initial_learning_rate",
        "decay_steps",
        "decay_rate",
    ),
    "PiecewiseConstantDecay": ("boundaries", "values"),
    "PolynomialDecay": ("initial_learning_rate", "decay_steps"),
    "InverseTimeDecay": (
        "initial_learning_rate",
        "decay_steps",
        "decay_rate",
    ),
    "CosineDecay": ("initial_learning_rate", "decay_steps"),
    "CosineDecayRestarts": ("initial_learning_rate", "first_decay_steps"),
}
