"""The buffer of `--grads_to_wait`: the mean of several pushes."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elastic_keras.ps.push import Gradients, Rows


@dataclasses.dataclass(frozen=True)
class _Entry:
    gradients: Gradients
    weight: float
    staleness: int


class GradientBuffer:
    """Holds pushes until there are enough for one update.

    Args:
        capacity: Pushes of one update.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: list[_Entry] = []

    def __len__(self) -> int:
        """Returns the number of pushes held."""
        return len(self._entries)

    @property
    def is_full(self) -> bool:
        """Whether there are enough pushes for an update."""
        return len(self._entries) >= self._capacity

    def add(self, gradients: Gradients, weight: float, staleness: int) -> None:
        """Takes a push.

        Args:
            gradients: Its gradients; they are copied.
            weight: What its gradients are multiplied by in the mean.
            staleness: Its staleness, for `staleness()`.
        """
        # They may lie in memory that the worker uses again for its next push.
        copied = Gradients(
            rows=[
                Rows(rows.table, rows.ids.copy(), rows.gradients.copy())
                for rows in gradients.rows
            ],
            dense=gradients.dense.copy(),
            state_deltas=gradients.state_deltas.copy(),
        )
        self._entries.append(_Entry(copied, weight, staleness))

    def staleness(self) -> list[int]:
        """Returns the staleness of each push held."""
        return [entry.staleness for entry in self._entries]

    def mean(self) -> Gradients:
        """Returns the mean of the pushes held, in the order they came.

        Dense gradients and state deltas are divided by the number of
        pushes, a row by the number of pushes that hold it.
        """
        count = np.float32(len(self._entries))
        parts = [entry.gradients for entry in self._entries]
        weights = [np.float32(entry.weight) for entry in self._entries]
        tables = sorted({rows.table for part in parts for rows in part.rows})
        return Gradients(
            rows=[self._mean_rows(table) for table in tables],
            dense=_weighted_sum([p.dense for p in parts], weights) / count,
            state_deltas=_weighted_sum(
                [p.state_deltas for p in parts],
                [np.float32(1)] * len(parts),
            )
            / count,
        )

    def clear(self) -> None:
        """Forgets the pushes held."""
        self._entries.clear()

    def to_state(self) -> tuple[list[Any], dict[str, np.ndarray]]:
        """Returns the pushes held: numbers, and arrays by name."""
        numbers: list[Any] = []
        arrays = {}
        for place, entry in enumerate(self._entries):
            part = entry.gradients
            tables = [rows.table for rows in part.rows]
            numbers.append([entry.weight, entry.staleness, tables])
            for rows in part.rows:
                arrays[f"{place}/{rows.table}/ids"] = rows.ids
                arrays[f"{place}/{rows.table}/gradients"] = rows.gradients
            arrays[f"{place}/dense"] = part.dense
            arrays[f"{place}/states"] = part.state_deltas
        return numbers, arrays

    def restore(
        self, numbers: Sequence[Any], arrays: Mapping[str, np.ndarray]
    ) -> None:
        """Takes over what `to_state` returned."""
        self._entries = [
            _Entry(
                Gradients(
                    rows=[
                        Rows(
                            table,
                            arrays[f"{place}/{table}/ids"],
                            arrays[f"{place}/{table}/gradients"],
                        )
                        for table in tables
                    ],
                    dense=arrays[f"{place}/dense"],
                    state_deltas=arrays[f"{place}/states"],
                ),
                weight,
                staleness,
            )
            for place, (weight, staleness, tables) in enumerate(numbers)
        ]

    def _mean_rows(self, table: int) -> Rows:
        held = [
            (rows, np.float32(entry.weight))
            for entry in self._entries
            for rows in entry.gradients.rows
            if rows.table == table
        ]
        ids, places, counts = np.unique(
            np.concatenate([rows.ids for rows, _ in held]),
            return_inverse=True,
            return_counts=True,
        )
        dim = held[0][0].gradients.shape[1]
        sums = np.zeros((len(ids), dim), np.float32)
        start = 0
        for rows, weight in held:
            stop = start + len(rows.ids)
            # Unique within a push, so that no addition hits a row twice.
            sums[places[start:stop]] += weight * rows.gradients
            start = stop
        return Rows(table, ids, sums / counts[:, None].astype(np.float32))


def _weighted_sum(
    arrays: Sequence[np.ndarray], weights: Sequence[np.float32]
) -> np.ndarray:
    total = np.zeros_like(arrays[0])
    for array, weight in zip(arrays, weights, strict=True):
        total += weight * array
    return total
