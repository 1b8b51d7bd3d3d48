"""What is to be said of a whole table, read once, part by part."""

import dataclasses

import numpy as np

from elastic_keras.inspecting.best import Best
from elastic_keras.inspecting.norms import Norms
from elastic_keras.snapshots.snapshot import Rows, Snapshot

COUNT = "count"
MOST = 10
# A norm this many times the median is worth a look.
FAR = 10.0


@dataclasses.dataclass(frozen=True)
class Outlier:
    """An id whose row has a large norm."""

    id: int
    norm: float


@dataclasses.dataclass(frozen=True)
class Updated:
    """An id, and how often its row was updated."""

    id: int
    updates: int


@dataclasses.dataclass(frozen=True)
class Survey:
    """A table.

    Args:
        name: Its name.
        dim: Width of a row.
        optimizer: Name of its optimizer.
        rows: Number of rows.
        rows_by_shard: How many of them each shard holds.
        bytes: Size of its files: ids, weights and slots.
        slots: Names of the slots of a row.
        norm_mean: Mean of the rows' norms; rows that are not finite are left
            out here and below.
        norm_min: The smallest norm.
        norm_max: The largest norm.
        norm_median: Their median without zeros, to 4 %.
        zero_rows: Rows of zeros.
        nonfinite_rows: Rows with a NaN or Inf among their weights.
        nonfinite_ids: Some of their ids.
        nonfinite_slots: Rows with a NaN or Inf in a slot, by slot.
        outlier_norm: A norm some ten times the median.
        outlier_rows: Rows with a larger one.
        outliers: Some of them, the largest first.
        most_updated: The most first; `None` where the optimizer keeps no
            count.
    """

    name: str
    dim: int
    optimizer: str
    rows: int
    rows_by_shard: list[int]
    bytes: int
    slots: list[str]
    norm_mean: float
    norm_min: float
    norm_max: float
    norm_median: float
    zero_rows: int
    nonfinite_rows: int
    nonfinite_ids: list[int]
    nonfinite_slots: dict[str, int]
    outlier_norm: float
    outlier_rows: int
    outliers: list[Outlier]
    most_updated: list[Updated] | None


def survey(snapshot: Snapshot, table: int) -> Survey:
    """Reads a table.

    Args:
        snapshot: The snapshot.
        table: Position of the table in its signature.

    Raises:
        SnapshotError: A file cannot be read.
    """
    spec = snapshot.signature.tables[table]
    entries = [shard.tables[table] for shard in snapshot.manifest.shards]
    reading = _Reading()
    for rows in snapshot.parts(table, slots=True):
        reading.add(rows)
    norms = reading.norms
    limit, beyond = norms.beyond(FAR)
    updates = reading.updates
    return Survey(
        name=spec.name,
        dim=spec.dim,
        optimizer=snapshot.signature.optimizers[spec.optimizer].name,
        rows=snapshot.rows(table),
        rows_by_shard=[entry.rows for entry in entries],
        bytes=sum(part.bytes for entry in entries for part in entry.parts),
        slots=sorted(reading.nonfinite_slots),
        norm_mean=norms.mean,
        norm_min=norms.min if norms.count else 0.0,
        norm_max=norms.max,
        norm_median=norms.median,
        zero_rows=norms.zeros,
        nonfinite_rows=reading.nonfinite_rows,
        nonfinite_ids=reading.nonfinite_ids,
        nonfinite_slots={n: k for n, k in reading.nonfinite_slots.items() if k},
        outlier_norm=limit,
        outlier_rows=beyond,
        outliers=[Outlier(*item) for item in reading.largest.items()[:beyond]],
        most_updated=None
        if updates is None
        else [Updated(row_id, int(count)) for row_id, count in updates.items()],
    )


class _Reading:
    """What is kept while the parts of a table go by."""

    def __init__(self) -> None:
        self.norms = Norms()
        self.largest = Best(MOST)
        self.updates: Best | None = None
        self.nonfinite_rows = 0
        self.nonfinite_ids: list[int] = []
        self.nonfinite_slots: dict[str, int] = {}

    def add(self, rows: Rows) -> None:
        """Takes a part."""
        finite = np.isfinite(rows.weights).all(axis=1)
        bad = rows.ids[~finite]
        self.nonfinite_rows += len(bad)
        self.nonfinite_ids += bad[: MOST - len(self.nonfinite_ids)].tolist()
        norms = row_norms(rows.weights[finite])
        self.norms.add(norms)
        self.largest.add(rows.ids[finite], norms)
        for name, values in rows.slots.items():
            if name == COUNT:
                self.updates = self.updates or Best(MOST)
                self.updates.add(rows.ids, values.astype(np.float64))
            flat = values.reshape(len(values), -1)
            count = int((~np.isfinite(flat).all(axis=1)).sum())
            before = self.nonfinite_slots.get(name, 0)
            self.nonfinite_slots[name] = before + count


def row_norms(weights: np.ndarray) -> np.ndarray:
    """Returns the Euclidean norm of each row, float64."""
    return np.sqrt(np.einsum("ij,ij->i", weights, weights, dtype=np.float64))
