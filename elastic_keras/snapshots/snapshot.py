"""Reads a snapshot, table by table and part by part."""

import pathlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from elastic_keras import routing
from elastic_keras.signature import ModelSignature
from elastic_keras.snapshots import files
from elastic_keras.snapshots.errors import SnapshotError
from elastic_keras.snapshots.manifest import FileEntry, Manifest

MANIFEST = "manifest.json"
SLOT = "slot/"


class Rows(NamedTuple):
    """Rows of a table.

    Args:
        ids: int64, `(n,)`.
        weights: float32, `(n, dim)`.
        slots: By name, as `ps.table.Table.export` gives them; empty if they
            were not asked for.
    """

    ids: np.ndarray
    weights: np.ndarray
    slots: dict[str, np.ndarray]


class Dense(NamedTuple):
    """All dense parameters, flat in the signature's order, or their slots.

    Args:
        values: float32, `(size,)`.
        states: The shared non-trainable variables, float32.
        slots: By name: float32, `(size,)`.
    """

    values: np.ndarray
    states: np.ndarray
    slots: dict[str, np.ndarray]


class Snapshot:
    """A snapshot's folder.

    Args:
        path: The folder.

    Raises:
        SnapshotError: It holds no snapshot.
    """

    def __init__(self, path: str | pathlib.Path) -> None:
        self.path = pathlib.Path(path)
        try:
            text = (self.path / MANIFEST).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise SnapshotError(
                f"There is no snapshot: {error}. Received: {str(path)!r}"
            ) from error
        self.manifest = Manifest.from_json(text)

    @property
    def signature(self) -> ModelSignature:
        """The model."""
        return self.manifest.signature

    @property
    def num_shards(self) -> int:
        """Shards that wrote it."""
        return len(self.manifest.shards)

    @property
    def nbytes(self) -> int:
        """Size of all files, in bytes."""
        return sum(entry.bytes for entry in self._files())

    def rows(self, table: int) -> int:
        """Returns the number of rows of a table."""
        return sum(shard.tables[table].rows for shard in self.manifest.shards)

    def check(self) -> None:
        """Checks every byte.

        Raises:
            SnapshotError: A file is missing, torn or corrupt.
        """
        for entry in self._files():
            files.check(self.path, entry)

    def check_shard(self, shard: int) -> None:
        """Checks every byte that a shard wrote.

        Raises:
            SnapshotError: A file is missing, torn or corrupt.
        """
        for entry in self.manifest.shards[shard].files:
            files.check(self.path, entry)

    def parts(
        self, table: int, *, slots: bool = False, shard: int | None = None
    ) -> Iterator[Rows]:
        """Reads a table in parts that fit into memory.

        Args:
            table: Position of the table in the signature.
            slots: Whether slots are wanted as well.
            shard: Only what this shard wrote; `None` for all.

        Yields:
            Some tens of MiB at a time, in no particular order of ids; each
            id is there once.
        """
        shards = self.manifest.shards
        for one in shards if shard is None else (shards[shard],):
            for entry in one.tables[table].parts:
                names = None if slots else ("ids", "weights")
                arrays = files.read(self.path, entry, names)
                yield Rows(
                    arrays.pop("ids"), arrays.pop("weights"), _slots(arrays)
                )

    def ids(self, table: int) -> Iterator[np.ndarray]:
        """Reads the ids of a table: int64, one array for each of `parts`."""
        for shard in self.manifest.shards:
            for entry in shard.tables[table].parts:
                yield files.read(self.path, entry, ("ids",))["ids"]

    def dense(self) -> Dense:
        """Reads the dense parameters, their slots and the states."""
        parts = [
            files.read(self.path, shard.dense) for shard in self.manifest.shards
        ]
        placements = routing.place(self.signature, self.num_shards)
        plan = routing.plan(placements)
        states = routing.plan(placements, states=True)
        names = sorted({name for part in parts for name in _slots(part)})
        return Dense(
            values=plan.join([part["values"] for part in parts]),
            states=states.join([part["states"] for part in parts]),
            slots={
                name: plan.join(
                    [
                        _slots(part).get(name, np.zeros_like(part["values"]))
                        for part in parts
                    ]
                )
                for name in names
            },
        )

    def _files(self) -> Iterator[FileEntry]:
        for shard in self.manifest.shards:
            yield from shard.files


def _slots(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        name.removeprefix(SLOT): array
        for name, array in arrays.items()
        if name.startswith(SLOT)
    }
