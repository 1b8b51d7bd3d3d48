"""Rows of a snapshot as TensorBoard's embedding projector reads them."""

import contextlib
import pathlib
import urllib.parse
from collections.abc import Iterator
from typing import TextIO

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector.metadata import PROJECTOR_FILENAME
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from elastic_keras.config import MonitoringOptions
from elastic_keras.monitoring.projector_options import (
    chosen_tables,
    names_files,
)
from elastic_keras.snapshots.snapshot import Rows, Snapshot

_FOLDER = "projector"


def write(
    folder: pathlib.Path, snapshot: Snapshot, options: MonitoringOptions
) -> None:
    """Writes the chosen tables, a part of a table at a time.

    Args:
        folder: The folder of a TensorBoard run.
        snapshot: Where the rows are.
        options: Which tables, how many rows, and names of ids.

    Raises:
        ConfigError: There is no such table or file of names.
        SnapshotError: The snapshot cannot be read.
        OSError: The files cannot be written.
    """
    dims = {table.name: table.dim for table in snapshot.signature.tables}
    names = names_files(options.projector_names)
    positions = {name: position for position, name in enumerate(dims)}
    config = ProjectorConfig()
    for table in chosen_tables(options.projector_tables, dims):
        # Under a name that no table can use to leave the folder.
        place = pathlib.Path(
            _FOLDER, f"table-{urllib.parse.quote(table, safe='')}"
        )
        (folder / place).mkdir(parents=True, exist_ok=True)
        position = positions[table]
        ids = _write_rows(
            folder / place / "tensors.tsv",
            _sample(snapshot, position, options.projector_rows),
        )
        _write_names(folder / place / "metadata.tsv", ids, names.get(table))
        config.embeddings.add(
            tensor_name=table,
            tensor_shape=[len(ids), dims[table]],
            tensor_path=str(place / "tensors.tsv"),
            metadata_path=str(place / "metadata.tsv"),
        )
    # Last: it says that the others are there.
    (folder / PROJECTOR_FILENAME).write_text(
        text_format.MessageToString(config)
    )


def _sample(snapshot: Snapshot, table: int, most: int) -> Iterator[Rows]:
    """Yields every k-th row, k such that `most` are not exceeded."""
    k = max(1, -(-snapshot.rows(table) // most))
    skip = 0
    for part in snapshot.parts(table):
        yield Rows(part.ids[skip::k], part.weights[skip::k], {})
        skip = (skip - len(part.ids)) % k


def _write_rows(path: pathlib.Path, parts: Iterator[Rows]) -> list[int]:
    """Writes rows as lines of numbers; returns their ids."""
    ids: list[int] = []
    with open(path, "w") as file:
        for part in parts:
            ids += part.ids.tolist()
            _write_numbers(file, part.weights)
    return ids


def _write_numbers(file: TextIO, weights: np.ndarray) -> None:
    for row in weights.tolist():
        file.write("\t".join(f"{value:.6g}" for value in row) + "\n")


def _write_names(
    path: pathlib.Path, ids: list[int], source: str | None
) -> None:
    with open(path, "w") as file:
        if source is None:
            # A header is for two columns and more.
            file.writelines(f"{index}\n" for index in ids)
            return
        names = _names(source, set(ids))
        file.write("name\tid\n")
        file.writelines(
            f"{names.get(index, index)}\t{index}\n" for index in ids
        )


def _names(source: str, wanted: set[int]) -> dict[int, str]:
    """Returns the names of the ids that are wanted."""
    names: dict[int, str] = {}
    with open(source, encoding="utf-8", errors="replace") as file:
        for line in file:
            index, _, name = line.rstrip("\n").partition("\t")
            # A line without a number may be a header.
            with contextlib.suppress(ValueError):
                if int(index) in wanted:
                    names[int(index)] = name.replace("\t", " ").strip()
    return {index: name for index, name in names.items() if name}
