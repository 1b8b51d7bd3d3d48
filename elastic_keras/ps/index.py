"""From ids to row numbers: an open-addressing hash table that grows in place.

A bucket is a tag of one byte (0 for an empty bucket, else bits of the hash)
and the number of a row; the id itself stands at the beginning of the row.
Probing is linear and never wraps around: a few buckets beyond the last home
position take the overflow.

The home position of a hash is its high 32 bits, scaled to the capacity, so
that buckets lie in the order of hashes in a table of any capacity. When the
table is full, a larger one is begun, and each insertion afterwards moves a
few buckets over, from front to back. Hashes below the *frontier* have moved;
a look-up therefore always knows which of the two tables to ask. Since both
are in the same order, the new one fills from the front while the pages of
the old one are given back from the front: together they never use more
memory than the new one alone will.

The hash is not the one that picks a row's shard (`routing`): the ids of one
shard spread over all positions.
"""

import numpy as np

from elastic_keras.ps.index_insert import FULL, fill, find_or_insert, move_all
from elastic_keras.ps.index_search import (
    CAPACITY,
    CURSOR,
    END,
    FRONTIER,
    LIMIT,
    NOT_FOUND,
    OLD_CAPACITY,
    ROWS,
    STATE_SIZE,
    Parts,
    find,
)
from elastic_keras.ps.memory import Reservation

MAX_ROWS = 1 << 30

_FIRST_CAPACITY = 1024
_OVERFLOW = 8192
_LOAD_PERCENT = 80
_DOUBLING_BELOW = 1 << 16
# Ids between two returns of memory to the system.
_BLOCK = 1 << 14


class Index:
    """The row numbers of a table's ids, which stand in its records.

    Not safe for threads by itself: many `find` together, or one
    `find_or_insert`.

    Args:
        words: The records as uint32, room for all rows that may come.
        record: Words of a record; the first two are the id.
    """

    def __init__(self, words: np.ndarray, record: int) -> None:
        self._words = words
        self._record = np.uint64(record)
        self._max_rows = min(MAX_ROWS, len(words) // record)
        self._overflow = _OVERFLOW
        self._state = np.zeros(STATE_SIZE, dtype=np.int64)
        self._state[FRONTIER] = END
        self._state[CAPACITY] = _FIRST_CAPACITY
        self._new = _Buckets(_FIRST_CAPACITY + self._overflow)
        self._old = _Buckets(1)
        self._set_limit()

    @property
    def rows(self) -> int:
        """Number of ids."""
        return int(self._state[ROWS])

    @property
    def nbytes(self) -> int:
        """Bytes of memory in use."""
        state = self._state
        if state[FRONTIER] == END:
            return self._new.touched(0, int(state[CAPACITY]))
        moved = int(state[FRONTIER]) * int(state[CAPACITY]) >> 32
        return self._new.touched(0, moved) + self._old.touched(
            int(state[CURSOR]), int(state[OLD_CAPACITY])
        )

    def find(self, ids: np.ndarray, wanted: int) -> np.ndarray:
        """Looks ids up; changes nothing.

        Args:
            ids: int64, (n,), read-only.
            wanted: Words of each record to bring into the cache.

        Returns:
            Row numbers, `NOT_FOUND` for unknown ids: uint32, (n,).
        """
        rows = np.empty(len(ids), dtype=np.uint32)
        find(ids, rows, self._parts(), np.uint64(wanted))
        return rows

    def find_or_insert(self, ids: np.ndarray) -> np.ndarray:
        """Looks ids up and appends rows for unknown ones.

        Args:
            ids: int64, (n,), read-only.

        Returns:
            Row numbers, uint32, (n,); new rows are those from the former
            `rows` on.

        Raises:
            MemoryError: There is no room for all ids, were they all new;
                nothing is changed.
        """
        n = len(ids)
        if self.rows + n > self._max_rows:
            known = self.find(ids, 2) != NOT_FOUND
            if self.rows + n - np.count_nonzero(known) > self._max_rows:
                raise MemoryError(
                    "The table has no room for more rows. Received: "
                    f"ids={n}, rows={self.rows}, max_rows={self._max_rows}"
                )
        rows = np.empty(n, dtype=np.uint32)
        begin = 0
        while begin < n:
            done = find_or_insert(
                ids, begin, min(begin + _BLOCK, n), rows, self._parts()
            )
            if done == FULL:
                self._rebuild()
            elif done < min(begin + _BLOCK, n):
                begin = done
                self._grow()
            else:
                begin = done
                self._give_back()
        return rows

    @classmethod
    def warm_up(cls) -> None:
        """Compiles or loads the kernels of growth, which first calls miss."""
        index = cls(np.zeros(1 << 12, dtype=np.uint32), 2)
        ids = np.arange(_FIRST_CAPACITY, dtype=np.int64)
        ids.flags.writeable = False
        index.find_or_insert(ids)
        index._finish()
        index._rebuild()

    def _parts(self) -> Parts:
        """Returns the index as kernels take it."""
        return Parts(
            self._new.tags,
            self._new.refs,
            self._old.tags,
            self._old.refs,
            self._state,
            self._words,
            self._record,
        )

    def _grow(self) -> None:
        """Begins a larger table."""
        state = self._state
        if state[FRONTIER] < END and not self._finish():
            self._rebuild()
            return
        capacity = int(state[CAPACITY])
        if capacity < _DOUBLING_BELOW:
            larger = 2 * capacity
        else:
            larger = capacity + capacity // 4
        self._old = self._new
        self._new = _Buckets(larger + self._overflow)
        state[OLD_CAPACITY] = capacity
        state[CAPACITY] = larger
        state[FRONTIER] = 0
        state[CURSOR] = 0
        self._set_limit()

    def _finish(self) -> bool:
        """Moves what is still in the old table."""
        done = move_all(self._parts())
        self._give_back()
        return bool(done)

    def _give_back(self) -> None:
        """Returns the memory of moved buckets."""
        if self._state[FRONTIER] == END:
            if len(self._old.tags) > 1:
                self._old = _Buckets(1)
        else:
            self._old.release_below(int(self._state[CURSOR]))

    def _rebuild(self) -> None:
        """Makes the table anew with more room for overflow, in one go.

        Only ids that were chosen to collide bring it to this.
        """
        while True:
            self._overflow *= 2
            self._new = _Buckets(int(self._state[CAPACITY]) + self._overflow)
            self._old = _Buckets(1)
            self._state[FRONTIER] = END
            if fill(self._parts()):
                return

    def _set_limit(self) -> None:
        self._state[LIMIT] = self._state[CAPACITY] * _LOAD_PERCENT // 100


class _Buckets:
    """Tags and row numbers of one generation of the table."""

    def __init__(self, count: int) -> None:
        self._tag_memory = Reservation(count)
        self._ref_memory = Reservation(4 * count)
        self.tags = self._tag_memory.array(np.uint8)[:count]
        self.refs = self._ref_memory.array(np.uint32)[:count]

    def touched(self, start: int, stop: int) -> int:
        """Bytes in use when buckets [start, stop) are."""
        return self._tag_memory.touched(start, stop) + (
            self._ref_memory.touched(4 * start, 4 * stop)
        )

    def release_below(self, stop: int) -> None:
        """Returns the memory of buckets before `stop`."""
        self._tag_memory.release_below(stop)
        self._ref_memory.release_below(4 * stop)
