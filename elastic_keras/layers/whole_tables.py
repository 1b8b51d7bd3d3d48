"""A table of a snapshot as a whole, for layers that hold it in memory."""

import numpy as np

from elastic_keras.ps.initializers import initial_rows
from elastic_keras.snapshots.snapshot import Snapshot

_CHUNK = 1 << 16


def whole_table(
    snapshot: Snapshot, number: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns a table's ids, ascending, and their rows.

    Args:
        snapshot: The snapshot.
        number: The table's position in the signature.

    Returns:
        int64, `(n,)`, and float32, `(n, dim)`.
    """
    dim = snapshot.signature.tables[number].dim
    parts = list(snapshot.parts(number))
    ids = np.concatenate([np.empty(0, np.int64), *(p.ids for p in parts)])
    rows = np.concatenate(
        [np.empty((0, dim), np.float32), *(p.weights for p in parts)]
    )
    order = np.argsort(ids)
    return ids[order], rows[order]


def rows_below(snapshot: Snapshot, number: int, input_dim: int) -> np.ndarray:
    """Returns the rows of ids 0 to `input_dim`, initial where there is none.

    Args:
        snapshot: The snapshot.
        number: The table's position in the signature.
        input_dim: Number of rows.

    Returns:
        float32, `(input_dim, dim)`.
    """
    signature = snapshot.signature
    spec = signature.tables[number]
    rows = np.empty((input_dim, spec.dim), np.float32)
    for start in range(0, input_dim, _CHUNK):
        ids = np.arange(start, min(start + _CHUNK, input_dim))
        rows[ids] = initial_rows(
            spec.initializer, signature.seed, number, ids, spec.dim
        )
    for part in snapshot.parts(number):
        rows[part.ids] = part.weights
    return rows
