"""The ids that come first by some number, of rows that come in parts."""

import numpy as np


class Best:
    """Keeps the ids of the largest values.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._ids = np.empty(0, np.int64)
        self._values = np.empty(0, np.float64)

    def add(self, ids: np.ndarray, values: np.ndarray) -> None:
        """Takes a part.

        Args:
            ids: int64, `(n,)`.
            values: `(n,)`; no NaN.
        """
        if len(ids) > self._count:
            least = np.partition(values, -self._count)[-self._count]
            ids, values = ids[values >= least], values[values >= least]
        ids = np.concatenate([self._ids, ids])
        values = np.concatenate([self._values, values])
        # Of equal values the smaller id first, whatever the parts.
        order = np.lexsort((ids, -values))[: self._count]
        self._ids, self._values = ids[order], values[order]

    def items(self) -> list[tuple[int, float]]:
        """Returns (id, value), the largest value first."""
        return list(zip(self._ids.tolist(), self._values.tolist(), strict=True))
