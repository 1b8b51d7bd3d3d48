"""The numbers of a shard: its tables, dense parameters and iterations."""

from collections.abc import Callable, Sequence

import numpy as np

from elastic_keras.ps import schedules
from elastic_keras.ps.dense import DenseParameters
from elastic_keras.ps.lock import ReadWriteLock
from elastic_keras.ps.push import Gradients
from elastic_keras.ps.table import Table
from elastic_keras.routing import ShardPlacement
from elastic_keras.signature import ModelSignature

# Makes a float32 array of a shape.
Empty = Callable[[tuple[int, ...]], np.ndarray]


class Parameters:
    """What a model keeps on one shard.

    Reads may run beside each other and beside one update: a row and the
    dense buffer are always read whole. Updates are the caller's to
    serialise.

    Args:
        signature: The model.
        placement: What this shard owns of the dense parameters and states.

    Raises:
        ValueError: An optimizer, initializer, constraint, schedule or an
            option of one that shards do not know.
    """

    def __init__(
        self, signature: ModelSignature, placement: ShardPlacement
    ) -> None:
        for optimizer in signature.optimizers:
            if optimizer.schedule is not None:
                schedules.check(optimizer.schedule)
        self.signature = signature
        self.placement = placement
        self.tables = [
            Table(
                spec,
                signature.optimizers[spec.optimizer],
                seed=signature.seed,
                table_index=i,
            )
            for i, spec in enumerate(signature.tables)
        ]
        self.dense = DenseParameters(placement, signature)
        self.iterations = 0
        self._dense_lock = ReadWriteLock()
        self._set_rates: dict[int, float] = {}

    @property
    def has_dense(self) -> bool:
        """Whether this shard owns dense parameters or states."""
        return self.placement.dense_size + self.placement.states_size > 0

    def initialize(self, dense: np.ndarray, states: np.ndarray) -> None:
        """Takes the first values of dense parameters and states."""
        with self._dense_lock.writing():
            self.dense.initialize(dense, states)

    def read_rows(
        self, table: int, ids: np.ndarray, empty: Empty
    ) -> np.ndarray:
        """Returns the rows of ids, float32 of shape (n, dim)."""
        of_table = self.tables[table]
        return of_table.pull(ids, empty((len(ids), of_table.spec.dim)))

    def read_dense(self, empty: Empty) -> tuple[np.ndarray, np.ndarray]:
        """Returns copies of the flat dense parameters and states."""
        dense = empty((self.placement.dense_size,))
        states = empty((self.placement.states_size,))
        with self._dense_lock.reading():
            dense[:] = self.dense.values
            states[:] = self.dense.states
        return dense, states

    def learning_rate(self, optimizer: int) -> float:
        """Returns the rate of the next update, before any dampening."""
        rate = self._set_rates.get(optimizer)
        if rate is not None:
            return rate
        return schedules.learning_rate(
            self.signature.optimizers[optimizer], self.iterations
        )

    @property
    def set_rates(self) -> tuple[tuple[int, float], ...]:
        """The rates that were fixed: (optimizer, rate)."""
        return tuple(sorted(self._set_rates.items()))

    def set_learning_rate(self, optimizer: int, rate: float) -> None:
        """Fixes an optimizer's rate; its schedule no longer counts."""
        self._set_rates[optimizer] = rate

    def apply(self, gradients: Gradients, rate_factor: float) -> None:
        """Makes one update of all optimizers.

        The caller then counts it in `iterations`.

        Args:
            gradients: Checked against the signature.
            rate_factor: What every learning rate is multiplied by.
        """
        rates = [
            self.learning_rate(i) * rate_factor
            for i in range(len(self.signature.optimizers))
        ]
        for rows in gradients.rows:
            if len(rows.ids):
                table = self.tables[rows.table]
                table.apply(
                    rows.ids,
                    rows.gradients,
                    learning_rate=rates[table.spec.optimizer],
                )
        if self.has_dense:
            self._apply_dense(gradients, rates)

    def _apply_dense(
        self, gradients: Gradients, rates: Sequence[float]
    ) -> None:
        with self._dense_lock.writing():
            self.dense.apply(
                gradients.dense,
                learning_rates=rates,
                iteration=self.iterations,
            )
            if self.placement.states_size:
                self.dense.add_states(gradients.state_deltas)

    def renew_locks(self) -> None:
        """In a forked process: forgets who held locks in the other."""
        self._dense_lock = ReadWriteLock()
        for table in self.tables:
            table.renew_lock()

    def finalize(self) -> None:
        """With `use_ema`: parameters and rows become their averages."""
        for table in self.tables:
            table.finalize()
        with self._dense_lock.writing():
            self.dense.finalize()
