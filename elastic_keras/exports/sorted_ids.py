"""The ids of a table in order, and where a snapshot has their rows."""

from typing import NamedTuple

import numpy as np

from elastic_keras.snapshots.snapshot import Snapshot

_INT32_ROWS = 1 << 31


class SortedIds(NamedTuple):
    """A table's ids.

    Args:
        ids: int64, ascending, `(n,)`.
        places: Place of each one's row among all rows, in the order of
            `Snapshot.parts`; int32, or int64 for very many; `(n,)`.
    """

    ids: np.ndarray
    places: np.ndarray


def place_type(rows: int) -> type:
    """Returns the integers that count so many rows."""
    return np.int32 if rows < _INT32_ROWS else np.int64


def sorted_ids(snapshot: Snapshot, table: int) -> SortedIds:
    """Reads the ids of a table, without its rows.

    Args:
        snapshot: The snapshot.
        table: Position of the table in the signature.
    """
    count = snapshot.rows(table)
    ids = np.empty(count, np.int64)
    start = 0
    for part in snapshot.ids(table):
        ids[start : start + len(part)] = part
        start += len(part)
    # Rows stay where they are: only so can they be copied part by part.
    places: np.ndarray = np.argsort(ids).astype(place_type(count))
    # In place: of a large table even the ids are much.
    ids.sort()
    return SortedIds(ids, places)
