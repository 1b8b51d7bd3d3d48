"""The signature of a built model, and the variables it stands for."""

import dataclasses
from collections.abc import Collection, Iterable
from typing import Any

import keras

from elastic_keras.config import ConfigError
from elastic_keras.layers.initializers import initializer_spec
from elastic_keras.signature import (
    DenseSpec,
    ModelSignature,
    OptimizerSpec,
    StateSpec,
    TableSpec,
)
from elastic_keras.worker import optimizers as optimizers_module
from elastic_keras.worker.constraints import (
    constraint_spec,
    row_constraint_spec,
)
from elastic_keras.worker.optimizers import Clipping, LossScale


@dataclasses.dataclass(frozen=True)
class Description:
    """What shards and steps must know of a model.

    Args:
        tables: The PS layers, in the order of `signature.tables`.
        dense: Trainable variables, in the order of `signature.dense`.
        states: Shared non-trainable variables, as in `signature.states`.
        optimizers: Keras optimizers, as in `signature.optimizers`.
        clippings: How the gradients of each optimizer are clipped.
        loss_scale: What the loss is scaled by, or `None`.
        signature: What workers and shards agree on.
    """

    tables: tuple[Any, ...]
    dense: tuple[Any, ...]
    states: tuple[Any, ...]
    optimizers: tuple[Any, ...]
    clippings: tuple[Clipping, ...]
    loss_scale: LossScale | None
    signature: ModelSignature


def describe(
    model: keras.Model,
    optimizer: Any,
    tables: tuple[Any, ...],
    changed: list[Any],
    seed: int,
    still: Collection[int] = (),
) -> Description:
    """Describes a built model.

    Args:
        model: The Keras model.
        optimizer: Its Keras optimizer, or `None`.
        tables: Its PS layers.
        changed: Non-trainable variables that a training call changes.
        seed: The job's seed.
        still: Positions of trainable variables that never get a gradient.
            Keras leaves them as they are, even with weight decay.

    Raises:
        ConfigError: Shards cannot run something of it.
    """
    loss_scale = optimizers_module.loss_scale(optimizer, model)
    known = _Optimizers(_model_optimizer(optimizer))
    dense = tuple(model.trainable_variables)
    states = tuple(variable for variable in changed if _is_float(variable))
    dense_optimizers = [
        known.position(keras.optimizers.SGD(0.0) if i in still else None)
        for i in range(len(dense))
    ]
    table_optimizers = [
        known.position(getattr(layer, "optimizer", None)) for layer in tables
    ]
    signature = ModelSignature(
        seed=seed,
        optimizers=tuple(known.specs),
        dense=_dense_specs(dense, dense_optimizers, known.optimizers),
        states=tuple(
            StateSpec(name, tuple(variable.shape))
            for name, variable in zip(
                _unique(v.path for v in states), states, strict=True
            )
        ),
        tables=tuple(
            _table_spec(name, layer, index, known.optimizers[index])
            for name, layer, index in zip(
                _unique(layer.name for layer in tables),
                tables,
                table_optimizers,
                strict=True,
            )
        ),
    )
    return Description(
        tables=tables,
        dense=dense,
        states=states,
        optimizers=tuple(known.optimizers),
        clippings=tuple(map(optimizers_module.clipping, known.optimizers)),
        loss_scale=loss_scale,
        signature=signature,
    )


class _Optimizers:
    """The model's optimizer first, then those that tables name, once each."""

    def __init__(self, first: Any) -> None:
        self.optimizers = [first]
        self.specs: list[OptimizerSpec] = [
            optimizers_module.optimizer_spec(first)
        ]

    def position(self, optimizer: Any) -> int:
        if optimizer is None:
            return 0
        optimizer = optimizers_module.unwrap(optimizer)
        spec = optimizers_module.optimizer_spec(optimizer)
        clipping = optimizers_module.clipping(optimizer)
        for index, known in enumerate(self.optimizers):
            if self.specs[index] != spec:
                continue
            if optimizers_module.clipping(known) == clipping:
                return index
        self.optimizers.append(optimizer)
        self.specs.append(spec)
        return len(self.optimizers) - 1


def _model_optimizer(optimizer: Any) -> Any:
    if optimizer is None:
        # A job that does not train pushes nothing; shards still need one.
        return keras.optimizers.SGD(0.0)
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ConfigError(
            "optimizer() must return a keras.optimizers.Optimizer. "
            f"Received: {type(optimizer).__name__}"
        )
    return optimizers_module.unwrap(optimizer)


def _dense_specs(
    variables: tuple[Any, ...], positions: list[int], optimizers: list[Any]
) -> tuple[DenseSpec, ...]:
    specs = []
    names = _unique(variable.path for variable in variables)
    for name, variable, position in zip(
        names, variables, positions, strict=True
    ):
        if not _is_float(variable):
            raise ConfigError(
                "Trainable variables are floating-point numbers. "
                f"Received: {name} of dtype {variable.dtype}"
            )
        specs.append(
            DenseSpec(
                name=name,
                shape=tuple(variable.shape),
                optimizer=position,
                weight_decay=optimizers_module.decays(
                    optimizers[position], variable
                ),
                constraint=constraint_spec(variable.constraint, name),
            )
        )
    return tuple(specs)


def _table_spec(name: str, layer: Any, index: int, optimizer: Any) -> TableSpec:
    return TableSpec(
        name=name,
        dim=layer.output_dim,
        initializer=initializer_spec(
            layer.embeddings_initializer,
            layer.output_dim,
            getattr(layer, "input_dim", 1),
        ),
        optimizer=index,
        weight_decay=optimizers_module.decays_name(
            optimizer, f"{name}/embeddings"
        ),
        constraint=row_constraint_spec(layer.embeddings_constraint, name),
    )


def _is_float(variable: Any) -> bool:
    return "float" in keras.backend.standardize_dtype(variable.dtype)


def _unique(names: Iterable[str]) -> list[str]:
    """Returns the names, with a number behind each that was there before."""
    seen: set[str] = set()
    result = []
    for name in names:
        unique, number = name, 1
        while unique in seen:
            unique, number = f"{name}_{number}", number + 1
        seen.add(unique)
        result.append(unique)
    return result
