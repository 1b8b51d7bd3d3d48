"""The named tensors that a SavedModel is called with, and answers with."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import keras
import tensorflow as tf

SPLITS = "row_splits"
_MADE_UP = re.compile(r"keras_tensor(_\d+)?")
_SPARSE = ("indices", "values", "dense_shape")


class NamedInputs:
    """Features as tensors by their names.

    A dict's keys are the names; inputs without one have the names of the
    model's own inputs. A ragged feature NAME is NAME, its flat values, and
    NAME_row_splits (NAME_row_splits_1 from the outside in, where there are
    several); a sparse one NAME_indices, NAME_values and NAME_dense_shape.

    Args:
        model: The model.
        features: Nested specs of its features.
    """

    def __init__(self, model: keras.Model, features: Any) -> None:
        self._features = features
        leaves = tf.nest.flatten(features)
        names = _unique(_leaf_names(model, features))
        self._parts: list[tuple[Any, list[str]]] = []
        self.specs: dict[str, tf.TensorSpec] = {}
        for name, spec in zip(names, leaves, strict=True):
            parts = _part_names(name, spec)
            self._parts.append((spec, parts))
            flat = tf.nest.flatten(spec, expand_composites=True)
            for part, of_part in zip(parts, flat, strict=True):
                self.specs[part] = tf.TensorSpec(
                    of_part.shape, of_part.dtype, name=part
                )

    def pack(self, tensors: Mapping[str, tf.Tensor]) -> Any:
        """Returns the features that named tensors stand for."""
        leaves = [
            _leaf(spec, [tensors[name] for name in names])
            for spec, names in self._parts
        ]
        return tf.nest.pack_sequence_as(self._features, leaves)


def named_outputs(model: keras.Model, outputs: Any) -> dict[str, tf.Tensor]:
    """Returns a model's outputs by their names, see `NamedInputs`.

    Args:
        model: The model.
        outputs: What it returned.
    """
    leaves = tf.nest.flatten(outputs)
    own = list(getattr(model, "output_names", None) or [])
    names = list(_paths(outputs))
    if not isinstance(outputs, Mapping):
        names = own if len(own) == len(leaves) else names
    result: dict[str, tf.Tensor] = {}
    for name, leaf in zip(
        _unique([name or "output" for name in names]), leaves, strict=True
    ):
        flat = tf.nest.flatten(leaf, expand_composites=True)
        result.update(zip(_part_names(name, leaf), flat, strict=True))
    return result


def _leaf_names(model: keras.Model, features: Any) -> list[str]:
    names = list(_paths(features))
    inputs = list(getattr(model, "inputs", None) or [])
    if not isinstance(features, Mapping) and len(inputs) == len(names):
        # Where nobody gave a name, Keras made one up, numbered.
        names = [
            name if _MADE_UP.fullmatch(tensor.name) else tensor.name
            for name, tensor in zip(names, inputs, strict=True)
        ]
    return [name or "inputs" for name in names]


def _paths(value: Any, before: str = "") -> Iterator[str]:
    """Gives the keys that lead to each leaf, in the order of `tf.nest`."""
    if isinstance(value, Mapping):
        for key in sorted(value):
            yield from _paths(value[key], f"{before}_{key}" if before else key)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _paths(part, f"{before or 'part'}_{number}")
    else:
        yield before


def _unique(names: list[str]) -> list[str]:
    """Returns names that TensorFlow takes, each once."""
    result: list[str] = []
    for name in names:
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)
        plain = plain if re.match(r"[A-Za-z]", plain) else f"input_{plain}"
        unique, number = plain, 1
        while unique in result:
            unique, number = f"{plain}_{number}", number + 1
        result.append(unique)
    return result


def _part_names(name: str, leaf: Any) -> list[str]:
    """Returns the names of a tensor's, or a spec's, parts."""
    if isinstance(leaf, tf.SparseTensor | tf.SparseTensorSpec):
        return [f"{name}_{part}" for part in _SPARSE]
    if isinstance(leaf, tf.RaggedTensor | tf.RaggedTensorSpec):
        if leaf.ragged_rank == 1:
            return [name, f"{name}_{SPLITS}"]
        numbers = range(1, leaf.ragged_rank + 1)
        return [name, *(f"{name}_{SPLITS}_{number}" for number in numbers)]
    return [name]


def _leaf(spec: Any, parts: list[tf.Tensor]) -> Any:
    if not isinstance(spec, tf.RaggedTensorSpec):
        return tf.nest.pack_sequence_as(spec, parts, expand_composites=True)
    # What comes in over the network is checked.
    return tf.RaggedTensor.from_nested_row_splits(
        parts[0], parts[1:], validate=True
    )
