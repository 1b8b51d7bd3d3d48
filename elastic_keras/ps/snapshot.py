"""Writes a shard's part of a snapshot, and takes one over."""

import base64
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from elastic_keras import routing
from elastic_keras.ps.books import Books
from elastic_keras.ps.buffer import GradientBuffer
from elastic_keras.ps.dense import PRODUCT
from elastic_keras.ps.parameters import Parameters
from elastic_keras.ps.table import Table
from elastic_keras.routing import Slice
from elastic_keras.snapshots import files
from elastic_keras.snapshots.errors import SnapshotError
from elastic_keras.snapshots.manifest import FileEntry, ShardEntry, TableEntry
from elastic_keras.snapshots.snapshot import SLOT, Rows, Snapshot

# Of a file: small enough to hold several in memory, large enough to be few.
_PART_BYTES = 64 << 20


_BOOKS = "books"
_BUFFER = "buffer/"
_BYTES = "base64"


def write(
    parameters: Parameters,
    books: Books,
    buffer: GradientBuffer,
    folder: pathlib.Path,
    *,
    shard: int,
    segment: int,
    proceed: Callable[[], None],
) -> ShardEntry:
    """Writes everything that a shard is.

    Nothing may be applied meanwhile.

    Args:
        parameters: The parameters.
        books: The ledger and the members.
        buffer: What is buffered.
        folder: Where the files go; nobody else writes this shard's.
        shard: The shard's index, for the names.
        segment: The segment of the journal that continues it, or -1.
        proceed: Called between files.

    Returns:
        What the manifest says of the shard.

    Raises:
        OSError: It cannot be written.
    """
    prefix = f"shard-{shard}"
    return ShardEntry(
        version=books.version,
        iterations=parameters.iterations,
        learning_rates=parameters.set_rates,
        dense=_write_dense(parameters, folder, f"{prefix}.dense.safetensors"),
        tables=tuple(
            TableEntry(
                table.rows,
                tuple(
                    _write_table(
                        table, folder, f"{prefix}.table-{number}", proceed
                    )
                ),
            )
            for number, table in enumerate(parameters.tables)
        ),
        books=_write_books(
            books, buffer, folder, f"{prefix}.books.safetensors"
        ),
        segment=segment,
    )


def _write_books(
    books: Books, buffer: GradientBuffer, folder: pathlib.Path, name: str
) -> FileEntry:
    buffered, arrays = buffer.to_state()
    state = {**books.to_state(), "buffer": buffered}
    text = json.dumps(state, default=_from_bytes).encode()
    return files.write(
        folder,
        name,
        {
            _BOOKS: np.frombuffer(text, np.uint8),
            **{_BUFFER + key: array for key, array in arrays.items()},
        },
    )


def _from_bytes(value: bytes) -> dict[str, str]:
    return {_BYTES: base64.b64encode(value).decode()}


def _to_bytes(value: dict[str, Any]) -> Any:
    return base64.b64decode(value[_BYTES]) if _BYTES in value else value


def _write_dense(
    parameters: Parameters, folder: pathlib.Path, name: str
) -> FileEntry:
    slots = parameters.dense.slots()
    if PRODUCT in slots:
        # One number a slice, but another job's slices are others.
        sizes = [part.size for part in parameters.placement.dense]
        slots[PRODUCT] = np.repeat(slots[PRODUCT], sizes)
    arrays = {
        "values": parameters.dense.values,
        "states": parameters.dense.states,
        **{SLOT + slot: array for slot, array in slots.items()},
    }
    return files.write(folder, name, arrays)


def _write_table(
    table: Table,
    folder: pathlib.Path,
    prefix: str,
    proceed: Callable[[], None],
) -> Iterator[FileEntry]:
    step = max(1, _PART_BYTES // table.row_nbytes)
    for number, start in enumerate(range(0, table.rows, step)):
        proceed()
        ids, weights, slots = table.export(start, start + step)
        yield files.write(
            folder,
            f"{prefix}.part-{number:05d}.safetensors",
            {
                "ids": ids,
                "weights": weights,
                **{SLOT + slot: array for slot, array in slots.items()},
            },
        )


def restore(
    parameters: Parameters,
    snapshot: Snapshot,
    *,
    index: int,
    num_shards: int,
    slots: bool,
) -> None:
    """Takes over what a shard owns of a snapshot, by any number of shards.

    Args:
        parameters: The parameters, of the snapshot's tables and variables.
        snapshot: The snapshot.
        index: This shard.
        num_shards: Number of shards now.
        slots: Whether the optimizers go on; otherwise they must be such as
            keep none.

    Raises:
        SnapshotError: A file cannot be read.
        ValueError: The slots are another optimizer's.
    """
    _restore_dense(parameters, snapshot, index, num_shards, slots)
    # As many shards own the same ids.
    shard = index if snapshot.num_shards == num_shards else None
    for number, table in enumerate(parameters.tables):
        for rows in snapshot.parts(number, slots=slots, shard=shard):
            table.restore(*_owned(rows, index, num_shards))
    parameters.iterations = snapshot.manifest.step
    if shard is not None:
        parameters.iterations = snapshot.manifest.shards[shard].iterations
    if slots:
        for optimizer, rate in snapshot.manifest.shards[0].learning_rates:
            parameters.set_learning_rate(optimizer, rate)


def restore_books(
    books: Books,
    buffer: GradientBuffer,
    snapshot: Snapshot,
    *,
    index: int,
    num_shards: int,
    members: bool,
) -> None:
    """Takes over the ledger, the counts and what was buffered.

    Args:
        books: What is set.
        buffer: What is set.
        snapshot: The snapshot; its shards were cut at one ledger.
        index: This shard.
        num_shards: Number of shards now.
        members: Whether the members and where they stand as well.

    Raises:
        SnapshotError: A file cannot be read, or other shards' pushes are
            still buffered.
    """
    entry = snapshot.manifest.shards[index % snapshot.num_shards]
    if entry.books is None:
        raise SnapshotError(
            "The snapshot is an older version's, without a ledger. "
            f"Received: {str(snapshot.path)!r}"
        )
    arrays = files.read(snapshot.path, entry.books)
    text = arrays.pop(_BOOKS).tobytes()
    state = json.loads(text, object_hook=_to_bytes)
    if state["buffer"] and snapshot.num_shards != num_shards:
        raise SnapshotError(
            f"The snapshot holds {len(state['buffer'])} pushes that wait for "
            "others (--grads_to_wait): restore it onto "
            f"{snapshot.num_shards} shards. Received: num_ps={num_shards}"
        )
    books.restore(state, members=members)
    buffer.restore(
        state["buffer"],
        {key.removeprefix(_BUFFER): array for key, array in arrays.items()},
    )


def _restore_dense(
    parameters: Parameters,
    snapshot: Snapshot,
    index: int,
    num_shards: int,
    slots: bool,
) -> None:
    dense = snapshot.dense()
    placements = routing.place(parameters.signature, num_shards)
    plan = routing.plan(placements)
    states = routing.plan(placements, states=True)
    parameters.initialize(
        plan.part(dense.values, index), states.part(dense.states, index)
    )
    if not slots:
        return
    mine = {
        name: plan.part(array, index) for name, array in dense.slots.items()
    }
    if PRODUCT in mine:
        mine[PRODUCT] = _of_slices(mine[PRODUCT], placements[index].dense)
    wanted = parameters.dense.slots()
    # This shard may own no variable of an optimizer that others have.
    parameters.dense.restore_slots(
        {name: array for name, array in mine.items() if name in wanted}
    )


def _of_slices(values: np.ndarray, slices: tuple[Slice, ...]) -> np.ndarray:
    """Returns one number a slice; 1, as at the start, for an empty one."""
    return np.array(
        [values[part.offset] if part.size else 1.0 for part in slices],
        np.float32,
    )


def _owned(rows: Rows, index: int, num_shards: int) -> Rows:
    if num_shards == 1:
        return rows
    mine = routing.owners(rows.ids, num_shards) == index
    return Rows(
        rows.ids[mine],
        rows.weights[mine],
        {name: array[mine] for name, array in rows.slots.items()},
    )
