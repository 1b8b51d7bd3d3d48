"""What a model is to the shards: its parameters, tables and optimizers.

The first worker describes its built model by a `ModelSignature`; every
shard and every other worker must agree with it before any data flows.
Everything here is plain data without TensorFlow or Keras.
"""

import dataclasses
import hashlib
import json
from typing import Any


@dataclasses.dataclass(frozen=True)
class InitializerSpec:
    """A distribution of initial values (DESIGN: placement and values).

    Args:
        name: One of `constant`, `uniform`, `normal`, `truncated_normal`;
            Keras's other initializers reduce to these (variance scaling to
            one of the last three with its scale worked out).
        a: The constant; the lower bound of `uniform`; the mean.
        b: Unused; the upper bound of `uniform`; the standard deviation
            (of the normal before truncation at two deviations).
    """

    name: str = "constant"
    a: float = 0.0
    b: float = 0.0


@dataclasses.dataclass(frozen=True)
class ConstraintSpec:
    """A Keras constraint that shards apply after each update.

    Args:
        name: One of `non_neg`, `max_norm`, `unit_norm`, `min_max_norm`.
        min_value: Lower norm of `min_max_norm`.
        max_value: Upper norm of `max_norm` and `min_max_norm`.
        rate: Rate of `min_max_norm`.
        axes: Axes along which norms are taken.
    """

    name: str
    min_value: float = 0.0
    max_value: float = 0.0
    rate: float = 1.0
    axes: tuple[int, ...] = (0,)


@dataclasses.dataclass(frozen=True)
class ScheduleSpec:
    """A Keras learning-rate schedule by class name and `get_config()`."""

    name: str
    config: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class OptimizerSpec:
    """An optimizer as the shards run it.

    Clipping is not part of it: workers clip, since only they hold the whole
    gradient.

    Args:
        name: One of `sgd`, `rmsprop`, `adagrad`, `adadelta`, `adam`,
            `adamw`, `adamax`, `nadam`, `ftrl`, `lion`.
        learning_rate: The rate, or the first value of `schedule`.
        schedule: A schedule in the optimizer's iterations, or `None`.
        hyper: The algorithm's own options under Keras's names (`momentum`,
            `nesterov`, `beta_1`, `epsilon`, `amsgrad`, ...).
        weight_decay: Decoupled decay, or `None`.
        use_ema: Keep an exponential moving average of parameters.
        ema_momentum: Its momentum.
        ema_overwrite_frequency: Iterations between overwrites of the
            parameters by their average, or `None`.
    """

    name: str
    learning_rate: float
    schedule: ScheduleSpec | None = None
    hyper: dict[str, float] = dataclasses.field(default_factory=dict)
    weight_decay: float | None = None
    use_ema: bool = False
    ema_momentum: float = 0.99
    ema_overwrite_frequency: int | None = None


@dataclasses.dataclass(frozen=True)
class DenseSpec:
    """A trainable variable outside a PS embedding.

    Args:
        name: The Keras variable's path.
        shape: Its shape; float32.
        optimizer: Position in `ModelSignature.optimizers`.
        weight_decay: Whether the optimizer's weight decay applies.
        constraint: What must hold after each update, or `None`.
    """

    name: str
    shape: tuple[int, ...]
    optimizer: int = 0
    weight_decay: bool = True
    constraint: ConstraintSpec | None = None


@dataclasses.dataclass(frozen=True)
class StateSpec:
    """A shared non-trainable float variable (BatchNorm statistics)."""

    name: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """A PS embedding.

    Args:
        name: Unique in the model.
        dim: Width of a row.
        initializer: Distribution of a row's initial value.
        optimizer: Position in `ModelSignature.optimizers`.
        weight_decay: Whether the optimizer's weight decay applies.
        constraint: What must hold for a row after each update, or `None`.
    """

    name: str
    dim: int
    initializer: InitializerSpec = InitializerSpec()
    optimizer: int = 0
    weight_decay: bool = True
    constraint: ConstraintSpec | None = None


@dataclasses.dataclass(frozen=True)
class ModelSignature:
    """Everything that workers and shards must agree on about a model."""

    seed: int
    optimizers: tuple[OptimizerSpec, ...]
    dense: tuple[DenseSpec, ...] = ()
    states: tuple[StateSpec, ...] = ()
    tables: tuple[TableSpec, ...] = ()

    def to_json(self) -> str:
        """Returns the canonical JSON text: equal models, equal texts."""
        return json.dumps(
            dataclasses.asdict(self), sort_keys=True, separators=(",", ":")
        )

    def sha256(self) -> str:
        """Returns the fingerprint of `to_json()` in hexadecimal."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def from_json(cls, text: str) -> "ModelSignature":
        """Reads what `to_json` wrote.

        Raises:
            ValueError: The text is not a signature.
        """
        try:
            raw = json.loads(text)
            return cls(
                seed=int(raw["seed"]),
                optimizers=tuple(map(_optimizer, raw["optimizers"])),
                dense=tuple(map(_dense, raw["dense"])),
                states=tuple(
                    StateSpec(s["name"], tuple(s["shape"]))
                    for s in raw["states"]
                ),
                tables=tuple(map(_table, raw["tables"])),
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"Not a model signature: {error!r}. "
                f"Received: text={text[:80]!r}"
            ) from error


def _optimizer(raw: dict[str, Any]) -> OptimizerSpec:
    schedule = raw["schedule"]
    if schedule is not None:
        schedule = ScheduleSpec(**schedule)
    return OptimizerSpec(**{**raw, "schedule": schedule})


def _constraint(raw: dict[str, Any] | None) -> ConstraintSpec | None:
    if raw is None:
        return None
    return ConstraintSpec(**{**raw, "axes": tuple(raw["axes"])})


def _dense(raw: dict[str, Any]) -> DenseSpec:
    return DenseSpec(
        **{
            **raw,
            "shape": tuple(raw["shape"]),
            "constraint": _constraint(raw["constraint"]),
        }
    )


def _table(raw: dict[str, Any]) -> TableSpec:
    return TableSpec(
        **{
            **raw,
            "initializer": InitializerSpec(**raw["initializer"]),
            "constraint": _constraint(raw["constraint"]),
        }
    )
