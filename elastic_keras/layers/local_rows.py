"""The rows of an embedding layer outside a job."""

import numpy as np

from elastic_keras.ps.initializers import initial_rows
from elastic_keras.signature import InitializerSpec


class LocalRows:
    """Rows by id; an id without a row has its initial value.

    Reads never allocate: what is held is what `assign` was given.

    Args:
        initializer: Distribution of initial values.
        dim: Width of a row.
        seed: Seed of initial values.
        table_index: The table's position in the job that trained it.
    """

    def __init__(
        self,
        initializer: InitializerSpec,
        dim: int,
        *,
        seed: int,
        table_index: int = 0,
    ) -> None:
        self._initializer = initializer
        self._dim = dim
        self.seed = seed
        self.table_index = table_index
        self.ids: np.ndarray = np.empty((0,), np.int64)
        self.rows = np.empty((0, dim), np.float32)

    def assign(self, ids: np.ndarray, rows: np.ndarray) -> None:
        """Replaces all rows.

        Args:
            ids: Unique int64 ids, shape `(n,)`.
            rows: Their rows, float32, shape `(n, dim)`.

        Raises:
            ValueError: The shapes do not fit or an id is there twice.
        """
        ids = np.asarray(ids, np.int64)
        rows = np.asarray(rows, np.float32)
        if ids.ndim != 1 or rows.shape != (len(ids), self._dim):
            raise ValueError(
                f"Ids of shape (n,) need rows of shape (n, {self._dim}). "
                f"Received: ids.shape={ids.shape}, rows.shape={rows.shape}"
            )
        order = np.argsort(ids, kind="stable")
        ids = ids[order]
        twice = np.flatnonzero(ids[1:] == ids[:-1])
        if len(twice):
            raise ValueError(
                f"Each id has one row. Received: id {ids[twice[0]]} twice"
            )
        self.ids = ids
        self.rows = np.ascontiguousarray(rows[order])

    def pull(self, ids: np.ndarray) -> np.ndarray:
        """Returns the rows of `ids`: float32, shape `ids.shape + (dim,)`."""
        flat = np.ascontiguousarray(ids, np.int64).reshape(-1)
        place = np.searchsorted(self.ids, flat)
        held = place < len(self.ids)
        held[held] = self.ids[place[held]] == flat[held]
        result = np.empty((len(flat), self._dim), np.float32)
        result[held] = self.rows[place[held]]
        if not held.all():
            result[~held] = initial_rows(
                self._initializer,
                self.seed,
                self.table_index,
                flat[~held],
                self._dim,
            )
        return result.reshape((*np.shape(ids), self._dim))
