"""One id of a table: its row, its slots, its neighbours."""

import dataclasses

import numpy as np

from elastic_keras import routing
from elastic_keras.inspecting.best import Best
from elastic_keras.inspecting.survey import row_norms
from elastic_keras.ps.initializers import initial_rows
from elastic_keras.snapshots.snapshot import Snapshot


@dataclasses.dataclass(frozen=True)
class RowReport:
    """An id of a table.

    Args:
        table: The table's name.
        id: The id.
        shard: The shard that it belongs to.
        exists: Whether it has a row: a gradient for it was applied.
        row: The row; the initial value that it would have otherwise.
        norm: Its norm.
        slots: Its slots by name: a vector each, or a number.
    """

    table: str
    id: int
    shard: int
    exists: bool
    row: list[float]
    norm: float
    slots: dict[str, list[float] | float]


@dataclasses.dataclass(frozen=True)
class Neighbour:
    """An id, and the cosine between its row and another."""

    id: int
    cosine: float


def find(snapshot: Snapshot, table: int, row_id: int) -> RowReport:
    """Looks for an id.

    Args:
        snapshot: The snapshot.
        table: Position of the table in its signature.
        row_id: The id.

    Raises:
        SnapshotError: A file cannot be read.
    """
    spec = snapshot.signature.tables[table]
    ids = np.array([row_id], np.int64)
    row = None
    slots: dict[str, list[float] | float] = {}
    for part in snapshot.parts(table, slots=True):
        (places,) = np.nonzero(part.ids == row_id)
        if len(places):
            row = part.weights[places]
            slots = {
                name: values[places[0]].tolist()
                for name, values in part.slots.items()
            }
            break
    exists = row is not None
    if row is None:
        row = initial_rows(
            spec.initializer, snapshot.signature.seed, table, ids, spec.dim
        )
    return RowReport(
        table=spec.name,
        id=row_id,
        shard=int(routing.owners(ids, snapshot.num_shards)[0]),
        exists=exists,
        row=row[0].tolist(),
        norm=float(row_norms(row)[0]),
        slots=slots,
    )


def neighbours(
    snapshot: Snapshot, table: int, report: RowReport, count: int
) -> list[Neighbour]:
    """Returns the ids whose rows point most nearly where one row does.

    Args:
        snapshot: The snapshot.
        table: Position of the table in its signature.
        report: The row.
        count: How many.

    Returns:
        The nearest first, without the id itself and without rows that have
        no direction: zeros, NaN, Inf. None for an id without a row, whose
        initial value points anywhere.

    Raises:
        SnapshotError: A file cannot be read.
    """
    best = Best(count)
    if not (count and report.exists and 0 < report.norm < np.inf):
        return []
    direction = np.array(report.row, np.float64) / report.norm
    for part in snapshot.parts(table):
        norms = row_norms(part.weights)
        usable = np.isfinite(norms) & (norms > 0) & (part.ids != report.id)
        weights = part.weights[usable].astype(np.float64)
        best.add(part.ids[usable], weights @ direction / norms[usable])
    return [Neighbour(*item) for item in best.items()]
