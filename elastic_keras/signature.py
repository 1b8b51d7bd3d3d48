"""What a model is to the shards: its parameters, tables and optimizers.

The first worker describes its built model by a `ModelSignature`; every
shard and every other worker must agree with it before any data flows.
Everything here is plain data without TensorFlow or Keras.
"""

import dataclasses
import hashlib
import json
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

INITIALIZERS = ("constant", "uniform", "normal", "truncated_normal")
CONSTRAINTS = ("non_neg", "max_norm", "unit_norm", "min_max_norm")
# Kernels compute in float32.
LARGEST_FLOAT32 = 3.4028234663852886e38
_LARGEST_DIM = 1 << 20
_LARGEST_RANK = 32


def _coerce(spec: object, kind: Callable[[Any], Any], *names: str) -> None:
    """Gives fields their type: 1 and 1.0 must not make two JSON texts."""
    for name in names:
        object.__setattr__(spec, name, kind(getattr(spec, name)))


def _float(value: Any) -> float:
    if isinstance(value, str | bytes):
        raise TypeError(f"Not a number. Received: {value!r}")
    return float(value)


def _floats(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: _float(value) for name, value in values.items()}


def _ints(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(operator.index(value) for value in values)


def _optional(kind: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else kind(value)


@dataclasses.dataclass(frozen=True)
class InitializerSpec:
    """A distribution of initial values.

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

    def __post_init__(self) -> None:
        _coerce(self, _float, "a", "b")


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

    def __post_init__(self) -> None:
        _coerce(self, _float, "min_value", "max_value", "rate")
        _coerce(self, _ints, "axes")


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

    def __post_init__(self) -> None:
        _coerce(self, _float, "learning_rate", "ema_momentum")
        _coerce(self, _optional(_float), "weight_decay")
        _coerce(self, _optional(operator.index), "ema_overwrite_frequency")
        _coerce(self, bool, "use_ema")
        _coerce(self, _floats, "hyper")


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

    def __post_init__(self) -> None:
        _coerce(self, _ints, "shape")
        _coerce(self, operator.index, "optimizer")
        _coerce(self, bool, "weight_decay")


@dataclasses.dataclass(frozen=True)
class StateSpec:
    """A shared non-trainable float variable (BatchNorm statistics)."""

    name: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        _coerce(self, _ints, "shape")


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

    def __post_init__(self) -> None:
        _coerce(self, operator.index, "dim", "optimizer")
        _coerce(self, bool, "weight_decay")


_Owned = TypeVar("_Owned", DenseSpec, TableSpec)


@dataclasses.dataclass(frozen=True)
class ModelSignature:
    """Everything that workers and shards must agree on about a model.

    Args:
        seed: The job's seed.
        optimizers: The model's optimizer first, then those of tables.
        dense: Trainable variables outside tables.
        states: Shared non-trainable variables.
        tables: PS embeddings.
        features: What the model is called on, as `worker.features` writes
            it; empty if it cannot be written, or is not known.
    """

    seed: int
    optimizers: tuple[OptimizerSpec, ...]
    dense: tuple[DenseSpec, ...] = ()
    states: tuple[StateSpec, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    features: str = ""

    def __post_init__(self) -> None:
        _coerce(self, operator.index, "seed")
        _coerce(self, tuple, "optimizers", "dense", "states", "tables")

    def to_json(self) -> str:
        """Returns the canonical JSON text: equal models, equal texts."""
        return json.dumps(
            dataclasses.asdict(self), sort_keys=True, separators=(",", ":")
        )

    def for_reading(self) -> "ModelSignature":
        """Returns the model as a job sees it that trains nothing.

        What only updates need is left out, so that a module without an
        optimizer, or with another one, fits a trained model, and shards keep
        no slots.
        """
        return dataclasses.replace(
            self,
            optimizers=(OptimizerSpec("sgd", 0.0),),
            dense=tuple(map(_for_reading, self.dense)),
            tables=tuple(map(_for_reading, self.tables)),
            features="",
        )

    def sha256(self) -> str:
        """Returns the fingerprint of `to_json()` in hexadecimal."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def from_json(cls, text: str) -> "ModelSignature":
        """Reads what `to_json` wrote, and checks it.

        Raises:
            ValueError: The text is not a signature, or not a possible one.
        """
        try:
            raw = json.loads(text)
            signature = cls(
                seed=raw["seed"],
                optimizers=tuple(map(_optimizer, raw["optimizers"])),
                dense=tuple(map(_dense, raw["dense"])),
                states=tuple(StateSpec(**state) for state in raw["states"]),
                tables=tuple(map(_table, raw["tables"])),
                # Older snapshots have none.
                features=raw.get("features", ""),
            )
        except (
            KeyError,
            TypeError,
            AttributeError,
            ValueError,
            OverflowError,
            RecursionError,
        ) as error:
            raise ValueError(
                f"Not a model signature: {error!r}. "
                f"Received: text={text[:80]!r}"
            ) from error
        signature.check()
        return signature

    def check(self) -> None:
        """Checks that shards can hold such a model.

        Names of optimizers and their options are checked by the optimizers.

        Raises:
            ValueError: They cannot; the message names the field.
        """
        _require(0 <= self.seed < 1 << 63, "seed", self.seed)
        _require(isinstance(self.features, str), "features", self.features)
        for i, optimizer in enumerate(self.optimizers):
            _check_optimizer(optimizer, f"optimizers[{i}]")
        for i, dense in enumerate(self.dense):
            at = f"dense[{i}]"
            _check_name(dense.name, at)
            _check_shape(dense.shape, at)
            self._check_owner(dense, at)
            for axis in dense.constraint.axes if dense.constraint else ():
                rank = len(dense.shape)
                _require(-rank <= axis < rank, f"{at}.constraint.axes", axis)
        for i, state in enumerate(self.states):
            _check_name(state.name, f"states[{i}]")
            _check_shape(state.shape, f"states[{i}]")
        names = [table.name for table in self.tables]
        for i, table in enumerate(self.tables):
            at = f"tables[{i}]"
            _check_name(table.name, at)
            _require(names.count(table.name) == 1, f"{at}.name", table.name)
            _require(1 <= table.dim <= _LARGEST_DIM, f"{at}.dim", table.dim)
            self._check_owner(table, at)
            initializer = table.initializer
            known = initializer.name in INITIALIZERS
            _require(known, f"{at}.initializer.name", initializer.name)
            for value in (initializer.a, initializer.b):
                _require(_is_float32(value), f"{at}.initializer", value)

    def _check_owner(self, spec: "DenseSpec | TableSpec", at: str) -> None:
        """Checks what dense parameters and tables have in common."""
        optimizer = spec.optimizer
        found = 0 <= optimizer < len(self.optimizers)
        _require(found, f"{at}.optimizer", optimizer)
        constraint = spec.constraint
        if constraint is None:
            return
        known = constraint.name in CONSTRAINTS
        _require(known, f"{at}.constraint.name", constraint.name)
        for value in (
            constraint.min_value,
            constraint.max_value,
            constraint.rate,
        ):
            _require(_is_float32(value), f"{at}.constraint", value)


def _for_reading(spec: _Owned) -> _Owned:
    return dataclasses.replace(
        spec, optimizer=0, weight_decay=True, constraint=None
    )


def _is_float32(value: float) -> bool:
    """Whether a number is finite, also in the kernels' float32."""
    return abs(value) <= LARGEST_FLOAT32


def _require(holds: bool, at: str, value: object) -> None:
    if not holds:
        raise ValueError(
            f"signature: {at} is not possible. Received: {at}={value!r}"
        )


def _check_name(name: object, at: str) -> None:
    _require(isinstance(name, str) and name != "", f"{at}.name", name)


def _check_shape(shape: tuple[int, ...], at: str) -> None:
    possible = all(length >= 0 for length in shape)
    _require(
        possible and math.prod(shape) < 1 << 48 and len(shape) <= _LARGEST_RANK,
        f"{at}.shape",
        shape,
    )


def _check_optimizer(spec: OptimizerSpec, at: str) -> None:
    _check_name(spec.name, at)
    rate = spec.learning_rate
    _require(_is_float32(rate), f"{at}.learning_rate", rate)
    for name, value in spec.hyper.items():
        _require(_is_float32(value), f"{at}.hyper[{name!r}]", value)
    decay = spec.weight_decay
    _require(decay is None or _is_float32(decay), f"{at}.weight_decay", decay)
    momentum = spec.ema_momentum
    _require(0.0 <= momentum <= 1.0, f"{at}.ema_momentum", momentum)
    every = spec.ema_overwrite_frequency
    _require(
        every is None or every >= 1, f"{at}.ema_overwrite_frequency", every
    )
    if spec.schedule is not None:
        _check_name(spec.schedule.name, f"{at}.schedule")
        config = spec.schedule.config
        _require(isinstance(config, dict), f"{at}.schedule.config", config)


def _optimizer(raw: dict[str, Any]) -> OptimizerSpec:
    schedule = raw["schedule"]
    if schedule is not None:
        schedule = ScheduleSpec(**schedule)
    return OptimizerSpec(**{**raw, "schedule": schedule})


def _constraint(raw: dict[str, Any] | None) -> ConstraintSpec | None:
    if raw is None:
        return None
    return ConstraintSpec(**raw)


def _dense(raw: dict[str, Any]) -> DenseSpec:
    return DenseSpec(
        **{
            **raw,
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
