"""A plain Keras model, its tables inside."""

import functools
import json
import logging
import pathlib
import zipfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from elastic_keras.exports.keras_table import KerasTable
from elastic_keras.exports.trained_model import TrainedModel
from elastic_keras.layers import Embedding
from elastic_keras.layers.whole_tables import rows_below, whole_table
from elastic_keras.snapshots.snapshot import Snapshot
from elastic_keras.worker import swap

_LOGGER = logging.getLogger(__name__)
FILE = "model.keras"
_MIB = 1 << 20
# Ids whose initial values are computed at a time.


class Written(NamedTuple):
    """What became of model.keras.

    Args:
        written: Whether it is there.
        notes: What is missing, or what loading it needs; a line each.
        needs: Names of classes outside Keras that must be registered.
    """

    written: bool
    notes: list[str]
    needs: list[str]


def write_keras(
    trained: TrainedModel, folder: pathlib.Path, *, limit_mb: int
) -> Written:
    """Writes FOLDER/model.keras; the model is a plain Keras one afterwards.

    Args:
        trained: The model.
        folder: The export's folder.
        limit_mb: Most MiB that its tables may take.

    Raises:
        OSError: It cannot be written.
    """
    size = sum(
        _nbytes(layer, trained.snapshot, number)
        for number, layer in enumerate(trained.prepared.tables)
    )
    if size > limit_mb * _MIB:
        return _not_written(
            f"its tables take {size / _MIB:,.0f} MiB, more than "
            f"--keras_limit_mb={limit_mb}"
        )
    model, why_ours = _with_tables(trained)
    path = folder / FILE
    try:
        model.save(path)
    except NotImplementedError as error:
        path.unlink(missing_ok=True)
        return _not_written(f"Keras cannot save it: {_first_line(error)}")
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
    needs = sorted(set(_foreign_classes(config)))
    notes = []
    if reason := _why_not_again(model, config):
        notes.append(f"{FILE} is there, but Keras cannot load it: {reason}.")
    ours = [
        layer.name
        for layer in model._flatten_layers()
        if isinstance(layer, Embedding)
    ]
    if ours:
        notes.append(
            f"{FILE} loads where elastic_keras is installed only, for "
            f"{', '.join(ours)}: {why_ours}."
        )
    if needs:
        notes.append(f"{FILE} needs classes to be loaded: {', '.join(needs)}.")
    return Written(True, notes, needs)


def _why_not_again(model: keras.Model, config: dict[str, Any]) -> str:
    """Returns what Keras says against making a model of a file's config."""
    kinds = {type(layer) for layer in model._flatten_layers()}
    # Some of Keras's layers have the name of one of its operations.
    own = {k.__name__: k for k in kinds if not _is_keras(k.__module__)}
    try:
        keras.saving.deserialize_keras_object(config, own, safe_mode=False)
    except Exception as error:
        return _first_line(error)
    return ""


def _not_written(reason: str) -> Written:
    return Written(False, [f"{FILE} is left out: {reason}."], [])


def _nbytes(layer: Any, snapshot: Snapshot, number: int) -> int:
    rows = snapshot.rows(number)
    if isinstance(layer, swap.TableEmbedding):
        rows = layer.input_dim
    return rows * layer.output_dim * 4


def _with_tables(trained: TrainedModel) -> tuple[keras.Model, str]:
    """Gives every layer its rows, and takes ours out where that is possible.

    Returns:
        The model, and why layers of ours are left in it, if they are.
    """
    snapshot, signature = trained.snapshot, trained.signature
    model = trained.prepared.model
    taken = {layer.name for layer in model._flatten_layers()}
    may_replace = isinstance(model, keras.Sequential) or _is_functional(model)
    stand_ins: dict[int, KerasTable] = {}
    for number, layer in enumerate(trained.prepared.tables):
        if isinstance(layer, swap.TableEmbedding):
            swap.restore(
                layer, rows_below(trained.snapshot, number, layer.input_dim)
            )
            continue
        ids, rows = whole_table(snapshot, number)
        layer.assign_rows(ids, rows, seed=signature.seed, table_index=number)
        if may_replace:
            stand_ins[id(layer)] = KerasTable(
                layer, ids, rows, signature, number, taken
            )
    try:
        if stand_ins:
            model = _replaced(model, stand_ins)
        return model, "the module's own code calls them"
    except Exception as error:
        _LOGGER.warning("Layers cannot be replaced", exc_info=error)
        return model, f"Keras cannot replace them: {_first_line(error)}"


def _replaced(
    model: keras.Model, stand_ins: dict[int, KerasTable]
) -> keras.Model:
    """Returns a functional model in which stand-ins are called.

    Layers of ours that a custom layer calls stay.

    Args:
        model: A sequential or functional model.
        stand_ins: By the id of the layer that each stands for.
    """
    if isinstance(model, keras.Sequential):
        model = keras.Model(model.inputs, model.outputs, name=model.name)
    inputs = keras.tree.map_structure(_like, model.input)
    if any(tensor.sparse for tensor in keras.tree.flatten(inputs)):
        raise ValueError("its operations know no sparse ids")

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        if id(layer) in stand_ins:
            return stand_ins[id(layer)](*args, **kwargs)
        return layer(*args, **kwargs)

    return keras.models.clone_model(
        model,
        input_tensors=inputs,
        # The same layers, with what they have learned.
        clone_function=lambda layer: _replaced_inside(layer, stand_ins),
        call_function=call,
    )


def _replaced_inside(layer: Any, stand_ins: dict[int, KerasTable]) -> Any:
    if isinstance(layer, keras.Sequential) or _is_functional(layer):
        inside = {id(each) for each in layer._flatten_layers()}
        if inside & set(stand_ins):
            return _replaced(layer, stand_ins)
    return layer


def _is_functional(layer: Any) -> bool:
    # A subclass may compute something else in a `call` of its own.
    return type(layer) is _functional()


@functools.cache
def _functional() -> type:
    """Returns the class of functional models, which has no public name."""
    inputs = keras.Input((1,))
    return type(keras.Model(inputs, inputs))


def _like(tensor: Any) -> Any:
    kinds = {
        name: True
        for name in ("sparse", "ragged")
        if getattr(tensor, name, False)
    }
    return keras.Input(
        batch_shape=tensor.shape, dtype=tensor.dtype, name=tensor.name, **kinds
    )


def _foreign_classes(config: Any) -> Sequence[str]:
    """Returns the classes in a Keras config that are not Keras's own."""
    if isinstance(config, list):
        return [name for part in config for name in _foreign_classes(part)]
    if not isinstance(config, dict):
        return []
    found = [
        name for part in config.values() for name in _foreign_classes(part)
    ]
    module = config.get("module")
    if "class_name" in config and not _is_keras(module):
        found.append(config.get("registered_name") or config["class_name"])
    return found


def _is_keras(module: Any) -> bool:
    # What stands for plain values has no module.
    name = str(module or "")
    return name in ("", "builtins") or name.split(".")[0] == "keras"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else repr(error)
