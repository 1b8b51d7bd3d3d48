"""Fills the tables of a saved model, part by part.

A SavedModel keeps its variables as a checkpoint. It is saved with empty
tables; then its checkpoint is written anew from small ones, each with some
rows of a table, which TensorFlow merges without reading their data. Whoever
loads it finds one tensor.
"""

import pathlib
import shutil
from collections.abc import Iterator, Sequence

import numpy as np
import tensorflow as tf

from elastic_keras.exports.sorted_ids import SortedIds, sorted_ids
from elastic_keras.snapshots.snapshot import Snapshot

_VARIABLES = "variables"
_VALUE = ".ATTRIBUTES/VARIABLE_VALUE"
# Of the tensors that are copied at a time.
_Bundle = dict[str, np.ndarray]


def fill_tables(
    saved_model: pathlib.Path, snapshot: Snapshot, names: Sequence[str]
) -> None:
    """Writes a snapshot's tables into a SavedModel.

    Args:
        saved_model: Its folder; each table's variables are empty.
        snapshot: The snapshot.
        names: Name of each table in the checkpoint.

    Raises:
        OSError: It cannot be written.
        SnapshotError: A table cannot be read.
    """
    old = saved_model / _VARIABLES
    new = saved_model / f"{_VARIABLES}.new"
    new.mkdir()
    writer = _Parts(new / "parts")
    writer.write(_without_tables(old / _VARIABLES, names))
    for number, name in enumerate(names):
        _write_table(writer, snapshot, number, name)
    try:
        tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=writer.prefixes,
            destination_prefix=str(new / _VARIABLES),
            delete_old_dirs=True,
        )
    except tf.errors.OpError as error:
        raise OSError(
            f"The tables cannot be merged: {error.message}"
        ) from error
    shutil.rmtree(old)
    new.rename(old)


class _Parts:
    """Checkpoints that are to become one.

    Args:
        folder: Where they are written.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self.prefixes: list[str] = []

    def write(self, tensors: _Bundle) -> None:
        """Writes whole tensors."""
        self._save(list(tensors), [""] * len(tensors), list(tensors.values()))

    def write_rows(
        self, name: str, rows: np.ndarray, start: int, count: int
    ) -> None:
        """Writes some rows of a matrix.

        Args:
            name: The matrix's name.
            rows: float32, `(n, dim)`.
            start: Place of the first one.
            count: Rows of the whole matrix.
        """
        length, dim = rows.shape
        self._save([name], [f"{count} {dim} {start},{length}:0,{dim}"], [rows])

    def _save(
        self, names: list[str], slices: list[str], values: list[np.ndarray]
    ) -> None:
        prefix = str(self._folder / f"{len(self.prefixes):05d}")
        try:
            tf.raw_ops.SaveV2(
                prefix=prefix,
                tensor_names=names,
                shape_and_slices=slices,
                tensors=values,
            )
        except tf.errors.OpError as error:
            raise OSError(
                f"A table cannot be written: {error.message}"
            ) from error
        self.prefixes.append(prefix)


def _write_table(
    writer: _Parts, snapshot: Snapshot, number: int, name: str
) -> None:
    found = sorted_ids(snapshot, number)
    writer.write(_ids_of(name, found))
    count = len(found.ids)
    del found
    if not count:
        dim = snapshot.signature.tables[number].dim
        writer.write({f"{name}/rows/{_VALUE}": np.zeros((0, dim), np.float32)})
    start = 0
    for rows in _nonempty(snapshot, number):
        writer.write_rows(f"{name}/rows/{_VALUE}", rows, start, count)
        start += len(rows)


def _nonempty(snapshot: Snapshot, number: int) -> Iterator[np.ndarray]:
    for part in snapshot.parts(number):
        if len(part.ids):
            yield part.weights


def _ids_of(name: str, found: SortedIds) -> _Bundle:
    return {
        f"{name}/ids/{_VALUE}": found.ids,
        f"{name}/places/{_VALUE}": found.places,
    }


def _without_tables(prefix: pathlib.Path, tables: Sequence[str]) -> _Bundle:
    """Reads everything of a checkpoint but the empty tables."""
    reader = tf.train.load_checkpoint(str(prefix))
    ours = {
        f"{table}/{part}/{_VALUE}"
        for table in tables
        for part in ("ids", "places", "rows")
    }
    names = set(reader.get_variable_to_shape_map())
    if not ours <= names:
        raise RuntimeError(
            "The SavedModel names its tables otherwise. "
            f"Received: {sorted(ours - names)}"
        )
    return {name: reader.get_tensor(name) for name in sorted(names - ours)}
