"""A table: the rows of one PS embedding on one shard, with their slots."""

import math

import numpy as np
from numba import njit

from elastic_keras.ps import initializers
from elastic_keras.ps.arrays import frozen
from elastic_keras.ps.constraints import check_for_table, constrain
from elastic_keras.ps.index import MAX_ROWS, Index
from elastic_keras.ps.index_search import NOT_FOUND
from elastic_keras.ps.lock import ReadWriteLock
from elastic_keras.ps.memory import Reservation, reservable_bytes
from elastic_keras.ps.optimizers.kernels import update_rows
from elastic_keras.ps.optimizers.plan import OptimizerPlan
from elastic_keras.ps.pointers import pointer
from elastic_keras.signature import OptimizerSpec, TableSpec

COUNT = "count"
PRODUCT = "product"

_ID_WORDS = 2
_ID = np.uint64(_ID_WORDS)
_ONE = np.uint64(1)
# Without room for at least this much a shard could not work anyway.
_LEAST_RESERVATION = 256 << 20


@njit(nogil=True, cache=True, error_model="numpy")
def _read_rows(ids, rows, out, data, record, dim, kind, a, b, key):  # type: ignore[no-untyped-def]
    """Copies weights, or computes those of rows that do not exist."""
    for i in range(len(rows)):
        target = np.uint64(i) * dim
        if rows[i] == NOT_FOUND:
            row_id = np.uint64(ids[i])
            initializers.fill_row(
                kind, a, b, key, row_id, pointer(out), target, dim
            )
        else:
            start = np.uint64(rows[i]) * record + _ID
            for j in range(dim):
                out[target + j] = data[start + j]


@njit(nogil=True, cache=True, error_model="numpy")
def _begin_rows(  # type: ignore[no-untyped-def]
    ids,
    rows,
    first_new,
    data,
    words,
    record,
    dim,
    slots,
    counted,
    product,
    kind,
    a,
    b,
    key,
):
    """Writes the first values of rows from number `first_new` on."""
    for i in range(len(rows)):
        if rows[i] < first_new:
            continue
        start = np.uint64(rows[i]) * record + _ID
        row_id = np.uint64(ids[i])
        initializers.fill_row(
            kind, a, b, key, row_id, pointer(data), start, dim
        )
        start += dim
        for k in range(len(slots)):
            for j in range(dim):
                data[start + j] = slots[k]
            start += dim
        if counted:
            words[start] = np.uint32(0)
        if product:
            data[start + _ONE] = np.float32(1)


class Table:
    """Rows by id, in one block of memory that grows without being moved.

    A row's record is its id, its weights, its slots one after another, and
    for optimizers that need them the count of its updates and a running
    product. Several threads may call; pulls run together, an apply alone.

    Args:
        spec: The table.
        optimizer: Its optimizer.
        seed: The job's seed.
        table_index: Position of the table in the model's signature.

    Raises:
        ValueError: An initializer, a constraint, an optimizer or an option
            that shards do not know.
    """

    def __init__(
        self,
        spec: TableSpec,
        optimizer: OptimizerSpec,
        *,
        seed: int,
        table_index: int,
    ) -> None:
        if spec.dim < 1:
            raise ValueError(
                f"A row has at least one weight. Received: dim={spec.dim}"
            )
        initializers.check(spec.initializer)
        check_for_table(spec.constraint)
        self.spec = spec
        self._plan = OptimizerPlan.from_spec(
            optimizer, weight_decay=spec.weight_decay
        )
        self._slot_values = np.array(
            [slot.initial_value for slot in self._plan.slots],
            dtype=np.float32,
        )
        self._record = (
            _ID_WORDS
            + spec.dim * (1 + len(self._plan.slots))
            + self._plan.has_count
            + self._plan.has_product
        )
        self._distribution = (
            initializers.KINDS[spec.initializer.name],
            float(spec.initializer.a),
            float(spec.initializer.b),
            initializers.stream_key(seed, table_index),
        )
        self._memory = Reservation(
            min(MAX_ROWS * 4 * self._record, reservable_bytes()),
            at_least=_LEAST_RESERVATION,
        )
        self._data = self._memory.array(np.float32)
        self._words = self._memory.array(np.uint32)
        self._index = Index(self._words, self._record)
        self._lock = ReadWriteLock()

    @property
    def rows(self) -> int:
        """Number of rows that exist."""
        return self._index.rows

    @property
    def row_nbytes(self) -> int:
        """Bytes of one row with its id and slots."""
        return 4 * self._record

    @property
    def nbytes(self) -> int:
        """Bytes of memory in use by rows, slots and index."""
        with self._lock.reading():
            return self._index.nbytes + self._memory.touched(
                0, 4 * self._record * self._index.rows
            )

    def pull(
        self, ids: np.ndarray, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Reads weights; creates no row.

        Args:
            ids: int64, (n,). An id without a row gives the weights that its
                row would begin with.
            out: Where to put them, float32, (n, dim); `None` for a new
                array.

        Returns:
            float32, (n, dim).

        Raises:
            ValueError: Another dtype or shape.
        """
        ids = frozen(ids, np.int64, "ids")
        dim = self.spec.dim
        if out is None:
            out = np.empty((len(ids), dim), dtype=np.float32)
        flat = out.reshape(-1)
        with self._lock.reading():
            rows = self._index.find(ids, _ID_WORDS + dim)
            _read_rows(
                ids,
                rows,
                flat,
                self._data,
                np.uint64(self._record),
                np.uint64(dim),
                *self._distribution,
            )
        return out

    def apply(
        self, ids: np.ndarray, gradients: np.ndarray, *, learning_rate: float
    ) -> None:
        """Updates rows; ids without a row get one first.

        Rows are updated in the optimizer's sparse form: no other row moves,
        and corrections for bias go by a row's own count of updates.

        Args:
            ids: int64, (n,), all different.
            gradients: float32, (n, dim).
            learning_rate: The rate of this update.

        Raises:
            ValueError: Another dtype or shape, or a rate that is not finite.
            MemoryError: The table has no room for the new rows.
        """
        ids = frozen(ids, np.int64, "ids")
        dim = self.spec.dim
        gradients = frozen(
            gradients, np.float32, "gradients", (len(ids), dim)
        ).reshape(-1)
        if not math.isfinite(learning_rate):
            raise ValueError(
                "The learning rate is a finite number. "
                f"Received: learning_rate={learning_rate}"
            )
        with self._lock.writing():
            rows = self._insert(ids)
            update_rows(
                self._plan.numbers,
                self._plan.hyper,
                self._plan.common,
                self._data,
                self._words,
                np.uint64(self._record),
                np.uint64(dim),
                rows,
                gradients,
                np.float32(learning_rate),
            )
            if self.spec.constraint is not None:
                weights = self._records()[:, _ID_WORDS : _ID_WORDS + dim]
                weights[rows] = constrain(weights[rows], self.spec.constraint)

    def renew_lock(self) -> None:
        """In a forked process: forgets who held the lock in the other."""
        self._lock = ReadWriteLock()

    def finalize(self) -> None:
        """Replaces weights by their moving averages, if there are any."""
        slot = self._plan.ema_slot
        if slot < 0:
            return
        dim = self.spec.dim
        average = _ID_WORDS + dim * (1 + slot)
        with self._lock.writing():
            records = self._records()[: self._index.rows]
            records[:, _ID_WORDS : _ID_WORDS + dim] = records[
                :, average : average + dim
            ]

    def export(
        self, start: int = 0, stop: int | None = None
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
        """Copies rows out, in the order in which they were created.

        Args:
            start: Number of the first row.
            stop: Number after the last; `None` for all there are.

        Returns:
            ids: int64, (rows,).
            weights: float32, (rows, dim).
            slots: By name; float32, (rows, dim). `count`, uint32, (rows,)
                and `product`, float32, (rows,), where the optimizer keeps
                them.
        """
        dim, plan = self.spec.dim, self._plan
        with self._lock.reading():
            records = self._records()[: self._index.rows][start:stop]
            words = records.view(np.uint32)
            ids = np.ascontiguousarray(words[:, :_ID_WORDS]).view(np.int64)
            column = _ID_WORDS + dim
            weights = records[:, _ID_WORDS:column].copy()
            slots: dict[str, np.ndarray] = {}
            for slot in plan.slots:
                slots[slot.name] = records[:, column : column + dim].copy()
                column += dim
            if plan.has_count:
                slots[COUNT] = words[:, column].copy()
            if plan.has_product:
                slots[PRODUCT] = records[:, column + 1].copy()
        return ids.reshape(-1), weights, slots

    def restore(
        self,
        ids: np.ndarray,
        weights: np.ndarray,
        slots: dict[str, np.ndarray],
    ) -> None:
        """Sets rows to what `export` gave, from any number of tables.

        Args:
            ids: int64, (n,), all different.
            weights: float32, (n, dim).
            slots: Every slot by name, as `export` gives them.

        Raises:
            ValueError: Another dtype, shape, or set of slots.
        """
        dim, plan, n = self.spec.dim, self._plan, len(ids)
        ids = frozen(ids, np.int64, "ids")
        weights = frozen(weights, np.float32, "weights", (n, dim))
        parts = {slot.name: (np.float32, (n, dim)) for slot in plan.slots}
        if plan.has_count:
            parts[COUNT] = (np.uint32, (n,))  # type: ignore[assignment]
        if plan.has_product:
            parts[PRODUCT] = (np.float32, (n,))  # type: ignore[assignment]
        if set(parts) != set(slots):
            raise ValueError(
                f"The slots of table {self.spec.name!r} are "
                f"{sorted(parts)}. Received: slots={sorted(slots)}"
            )
        checked = [
            frozen(slots[name], kind, f"slot {name}", shape)
            for name, (kind, shape) in parts.items()
        ]
        if not n:
            return
        columns = [weights, *(c.view(np.float32) for c in checked)]
        with self._lock.writing():
            rows = self._insert(ids)
            records = self._records()
            records[rows, _ID_WORDS:] = np.concatenate(
                [c.reshape(n, -1) for c in columns], axis=1
            )

    def _insert(self, ids: np.ndarray) -> np.ndarray:
        """Returns row numbers; new rows have their first values."""
        first_new = self._index.rows
        rows = self._index.find_or_insert(ids)
        if self._index.rows > first_new:
            _begin_rows(
                ids,
                rows,
                np.uint32(first_new),
                self._data,
                self._words,
                np.uint64(self._record),
                np.uint64(self.spec.dim),
                self._slot_values,
                self._plan.has_count,
                self._plan.has_product,
                *self._distribution,
            )
        return rows

    def _records(self) -> np.ndarray:
        whole = len(self._data) // self._record
        return self._data[: whole * self._record].reshape(whole, self._record)
