"""Prints how far each optimizer of the shards is from Keras's own.

    python scripts/optimizer_table.py [--steps=100]

For every optimizer and option: the largest difference of a parameter after
any step, divided by the largest parameter, for dense parameters and for the
rows of a table that are all touched in each step.
"""

import dataclasses
import os
from typing import Any

import numpy as np
from absl import app, flags

from elastic_keras.ps.dense import DenseParameters
from elastic_keras.ps.schedules import learning_rate
from elastic_keras.ps.table import Table
from elastic_keras.routing import place
from elastic_keras.signature import (
    ConstraintSpec,
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    ScheduleSpec,
    TableSpec,
)

_SHAPES: tuple[tuple[int, ...], ...] = ((40, 17), ())
_COMMON = ("weight_decay", "use_ema", "ema_momentum", "ema_overwrite_frequency")


@dataclasses.dataclass(frozen=True)
class Case:
    """An optimizer with options.

    Args:
        keras_name: Class in `keras.optimizers`.
        options: Its arguments, but for the learning rate.
        rate: The learning rate.
        schedule: Class in `keras.optimizers.schedules` with its arguments.
    """

    keras_name: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    rate: float = 0.01
    schedule: tuple[str, dict[str, Any]] | None = None

    def __str__(self) -> str:
        words = [f"{key}={value}" for key, value in self.options.items()]
        if self.schedule:
            words.append(self.schedule[0])
            words += [f"{k}={v}" for k, v in self.schedule[1].items()]
        return f"{self.keras_name}({', '.join(words)})"


_NAMES = (
    "SGD",
    "RMSprop",
    "Adagrad",
    "Adadelta",
    "Adam",
    "AdamW",
    "Adamax",
    "Nadam",
    "Ftrl",
    "Lion",
)
_OWN = (
    ("SGD", {"momentum": 0.9}),
    ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("RMSprop", {"rho": 0.8, "epsilon": 1e-3}),
    ("RMSprop", {"momentum": 0.9}),
    ("RMSprop", {"centered": True}),
    ("RMSprop", {"momentum": 0.9, "centered": True}),
    ("Adagrad", {"initial_accumulator_value": 0.0, "epsilon": 1e-3}),
    ("Adagrad", {"initial_accumulator_value": 1.0}),
    ("Adadelta", {"rho": 0.8, "epsilon": 1e-4}),
    ("Adam", {"amsgrad": True}),
    ("Adam", {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}),
    ("AdamW", {"weight_decay": 0.1, "amsgrad": True}),
    ("Adamax", {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}),
    ("Nadam", {"beta_1": 0.5, "beta_2": 0.9, "epsilon": 1e-3}),
    ("Ftrl", {"learning_rate_power": -0.3}),
    ("Ftrl", {"learning_rate_power": 0.0}),
    (
        "Ftrl",
        {
            "initial_accumulator_value": 0.5,
            "l1_regularization_strength": 0.1,
            "l2_regularization_strength": 0.2,
        },
    ),
    ("Ftrl", {"l2_shrinkage_regularization_strength": 0.1, "beta": 0.5}),
    ("Lion", {"beta_1": 0.8, "beta_2": 0.9}),
)
_SHARED = (
    {"weight_decay": 0.05},
    {"use_ema": True, "ema_momentum": 0.9},
    {"use_ema": True, "ema_momentum": 0.9, "ema_overwrite_frequency": 7},
    {"weight_decay": 0.05, "use_ema": True, "ema_overwrite_frequency": 3},
)
_SCHEDULES = (
    (
        "ExponentialDecay",
        {"initial_learning_rate": 0.02, "decay_steps": 9, "decay_rate": 0.8},
    ),
    (
        "PiecewiseConstantDecay",
        {"boundaries": [20, 50], "values": [0.02, 0.01, 0.001]},
    ),
    (
        "PolynomialDecay",
        {"initial_learning_rate": 0.02, "decay_steps": 60, "power": 0.5},
    ),
    (
        "InverseTimeDecay",
        {"initial_learning_rate": 0.02, "decay_steps": 9, "decay_rate": 0.5},
    ),
    (
        "CosineDecay",
        {
            "initial_learning_rate": 0.001,
            "decay_steps": 60,
            "warmup_target": 0.02,
            "warmup_steps": 20,
        },
    ),
    (
        "CosineDecayRestarts",
        {"initial_learning_rate": 0.02, "first_decay_steps": 15},
    ),
)


def cases() -> list[Case]:
    """Returns every optimizer with every option."""
    found = [Case(name) for name in _NAMES]
    found += [Case(name, options) for name, options in _OWN]
    found += [Case(name, shared) for name in _NAMES for shared in _SHARED]
    found += [
        Case(name, schedule=schedule)
        for name in ("SGD", "Adam")
        for schedule in _SCHEDULES
    ]
    return found


def spec_of(case: Case) -> OptimizerSpec:
    """Returns the shards' description of a case."""
    options = dict(case.options)
    common = {key: options.pop(key) for key in _COMMON if key in options}
    if case.keras_name == "AdamW":
        common.setdefault("weight_decay", 0.004)
    return OptimizerSpec(
        case.keras_name.lower(),
        learning_rate=case.rate,
        schedule=ScheduleSpec(*case.schedule) if case.schedule else None,
        hyper=options,
        **common,
    )


def keras_optimizer(case: Case) -> Any:
    """Returns Keras's own optimizer of a case."""
    import keras

    rate: Any = case.rate
    if case.schedule:
        name, config = case.schedule
        rate = getattr(keras.optimizers.schedules, name)(**config)
    kind = getattr(keras.optimizers, case.keras_name)
    return kind(learning_rate=rate, **case.options)


def worst_differences(
    case: Case,
    *,
    steps: int = 100,
    constraint: tuple[Any, ConstraintSpec] | None = None,
) -> tuple[float, float]:
    """Runs dense parameters and a table beside Keras's variables.

    Args:
        case: The optimizer.
        steps: Number of steps.
        constraint: Keras's constraint of the parameters, and ours.

    Returns:
        The largest relative difference after any step and at the end, when
        averages have replaced parameters: of the dense parameters, and of
        the rows.
    """
    import keras

    theirs, ours = constraint or (None, None)
    spec = spec_of(case)
    table = Table(
        TableSpec(
            "table",
            _SHAPES[0][1],
            initializer=InitializerSpec("normal", 0.0, 0.5),
            constraint=ours,
        ),
        spec,
        seed=1,
        table_index=0,
    )
    signature = ModelSignature(
        seed=0,
        optimizers=(spec,),
        dense=tuple(
            DenseSpec(f"v{i}", shape, constraint=ours if shape else None)
            for i, shape in enumerate(_SHAPES)
        ),
    )
    placement = place(signature, 1)[0]
    dense = DenseParameters(placement, signature)
    rng = np.random.default_rng(0)
    ids = np.arange(_SHAPES[0][0], dtype=np.int64)

    def draw(scale: float) -> list[np.ndarray]:
        return [
            (scale * rng.normal(size=s)).astype(np.float32) for s in _SHAPES
        ]

    def flat(arrays: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(
            [arrays[piece.index].reshape(-1) for piece in placement.dense]
        )

    start = [table.pull(ids), *draw(0.5)[1:]]
    dense.initialize(flat(start), np.zeros(0, np.float32))
    variables = [
        keras.Variable(value, dtype="float32", name=f"v{i}")
        for i, value in enumerate(start)
    ]
    for variable in variables:
        variable.constraint = theirs if len(variable.shape) else None
    optimizer = keras_optimizer(case)
    optimizer.build(variables)

    def compare() -> np.ndarray:
        expected = [variable.numpy() for variable in variables]
        return np.array(
            [
                _relative(dense.values, flat(expected)),
                _relative(table.pull(ids), expected[0]),
            ]
        )

    worst = np.zeros(2)
    for step in range(steps):
        gradients = draw(0.3)
        optimizer.apply(gradients, variables)
        rate = learning_rate(spec, step)
        dense.apply(flat(gradients), learning_rates=[rate], iteration=step)
        order = rng.permutation(len(ids))
        table.apply(ids[order], gradients[0][order], learning_rate=rate)
        worst = np.maximum(worst, compare())
    optimizer.finalize_variable_values(variables)
    dense.finalize()
    table.finalize()
    return tuple(map(float, np.maximum(worst, compare())))  # type: ignore


def _relative(values: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(values - expected)) / np.max(np.abs(expected)))


_STEPS = flags.DEFINE_integer("steps", 100, "Steps of each run.", lower_bound=1)


def main(argv: list[str]) -> None:
    """Prints the table."""
    del argv
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    print(f"{'dense':>8} {'rows':>8}  optimizer")
    largest = 0.0
    for case in cases():
        dense, rows = worst_differences(case, steps=_STEPS.value)
        largest = max(largest, dense, rows)
        print(f"{dense:8.1e} {rows:8.1e}  {case}", flush=True)
    print(f"worst relative difference: {largest:.1e}")


if __name__ == "__main__":
    app.run(main)
