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
from numba import njit

from elastic_keras.ps.memory import Reservation
from elastic_keras.ps.pointers import pointer, prefetch

MAX_ROWS = 1 << 30
NOT_FOUND = np.uint32(0xFFFFFFFF)

# Where `state` keeps what (int64).
ROWS = 0
CAPACITY = 1
OLD_CAPACITY = 2
FRONTIER = 3  # hashes' high halves below it are in the new table
CURSOR = 4  # next bucket of the old table to move
LIMIT = 5  # rows that the present capacity is good for
STATE_SIZE = 6
_END = 1 << 32  # the frontier when there is nothing to move

_FIRST_CAPACITY = 1024
_OVERFLOW = 8192
_LOAD_PERCENT = 80
# Buckets moved for an inserted id. A growth by a quarter at 80 % load must be
# done within 0.2 capacities of insertions, so at least 5; with more, fewer
# rows are inserted into the still full part of the old table.
_MOVES = 10
_DOUBLING_BELOW = 1 << 16
# Ids that are worked on together, so that their cache misses overlap.
_CHUNK = 64
# Ids between two returns of memory to the system.
_BLOCK = 1 << 14
_FULL = -1

_A, _B = np.uint64(0x3C79AC492BA7B653), np.uint64(0x1C69B3F74AC4AE35)
_S27, _S32, _S33 = map(np.uint64, (27, 32, 33))
_TAG_MASK = np.uint64(0xFF)
_ONE = np.uint64(1)
_ZERO_TAG = np.uint8(0)
_LOW_HALF = np.uint64(0xFFFFFFFF)


@njit(nogil=True, cache=True, error_model="numpy")
def mix(row_id):  # type: ignore[no-untyped-def]
    """Returns the hash of an id, uint64; one to one."""
    x = np.uint64(row_id)
    x = (x ^ (x >> _S27)) * _A
    x = (x ^ (x >> _S33)) * _B
    return x ^ (x >> _S27)


@njit(nogil=True, cache=True, error_model="numpy")
def _tag(mixed):  # type: ignore[no-untyped-def]
    tag = mixed & _TAG_MASK
    return np.uint8(tag) if tag else np.uint8(1)


@njit(nogil=True, cache=True, error_model="numpy")
def _home(mixed, capacity):  # type: ignore[no-untyped-def]
    return ((mixed >> _S32) * np.uint64(capacity)) >> _S32


@njit(nogil=True, cache=True, error_model="numpy")
def _id_of(words, record, row):  # type: ignore[no-untyped-def]
    start = np.uint64(row) * record
    low = np.uint64(words[start])
    return np.int64(low | (np.uint64(words[start + _ONE]) << _S32))


@njit(nogil=True, cache=True, error_model="numpy")
def _candidate(tags, bucket, tag):  # type: ignore[no-untyped-def]
    """Returns the first bucket from `bucket` on with the tag, or empty."""
    while tags[bucket] != tag and tags[bucket] != _ZERO_TAG:
        bucket += _ONE
    return bucket


@njit(nogil=True, cache=True, error_model="numpy")
def _settle(tags, refs, words, record, bucket, tag, row_id):  # type: ignore[no-untyped-def]
    """Returns the bucket of an id, or the empty one that ends the search."""
    while True:
        bucket = _candidate(tags, bucket, tag)
        if tags[bucket] == _ZERO_TAG:
            return bucket
        if _id_of(words, record, refs[bucket]) == row_id:
            return bucket
        bucket += _ONE


@njit(nogil=True, cache=True, error_model="numpy")
def _begin_search(  # type: ignore[no-untyped-def]
    ids,
    base,
    m,
    hashes,
    buckets,
    tags,
    refs,
    old_tags,
    old_refs,
    state,
    words,
    record,
    wanted,
):
    """Finds candidates of m ids and asks for their rows' memory.

    Args:
        wanted: Words of a record that will be read.
    """
    frontier = np.uint64(state[FRONTIER])
    for i in range(m):
        mixed = mix(ids[base + i])
        hashes[i] = mixed
        if (mixed >> _S32) < frontier:
            home = _home(mixed, state[CAPACITY])
            prefetch(tags, home)
            prefetch(refs, home)
        else:
            home = _home(mixed, state[OLD_CAPACITY])
            prefetch(old_tags, home)
            prefetch(old_refs, home)
        buckets[i] = home
    for i in range(m):
        mixed = hashes[i]
        tag = _tag(mixed)
        row = np.uint32(0)
        if (mixed >> _S32) < frontier:
            bucket = _candidate(tags, buckets[i], tag)
            found = tags[bucket] != _ZERO_TAG
            if found:
                row = refs[bucket]
        else:
            bucket = _candidate(old_tags, buckets[i], tag)
            found = old_tags[bucket] != _ZERO_TAG
            if found:
                row = old_refs[bucket]
        buckets[i] = bucket
        if found:
            start = np.uint64(row) * record
            for line in range(np.uint64(0), wanted, np.uint64(16)):
                prefetch(words, start + line)
            prefetch(words, start + wanted - _ONE)


@njit(nogil=True, cache=True, error_model="numpy")
def _end_search(  # type: ignore[no-untyped-def]
    row_id, mixed, bucket, tags, refs, old_tags, old_refs, state, words, record
):
    """Returns the row of an id, or `NOT_FOUND`."""
    tag = _tag(mixed)
    if (mixed >> _S32) < np.uint64(state[FRONTIER]):
        bucket = _settle(tags, refs, words, record, bucket, tag, row_id)
        return refs[bucket] if tags[bucket] != _ZERO_TAG else NOT_FOUND
    bucket = _settle(old_tags, old_refs, words, record, bucket, tag, row_id)
    return old_refs[bucket] if old_tags[bucket] != _ZERO_TAG else NOT_FOUND


@njit(nogil=True, cache=True, error_model="numpy")
def find(  # type: ignore[no-untyped-def]
    ids,
    rows,
    new_tags,
    new_refs,
    was_tags,
    was_refs,
    states,
    records,
    record,
    wanted,
):
    """Looks ids up.

    Args:
        ids: int64, (n,).
        rows: Receives the rows' numbers or `NOT_FOUND`, uint32, (n,).
        new_tags, new_refs, was_tags, was_refs, states: The index.
        records: The records as uint32.
        record: Words of a record.
        wanted: Words of a record to bring into the cache.
    """
    tags, refs = pointer(new_tags), pointer(new_refs)
    old_tags, old_refs = pointer(was_tags), pointer(was_refs)
    state, words, wanted_ids = pointer(states), pointer(records), pointer(ids)
    hash_array = np.empty(_CHUNK, dtype=np.uint64)
    bucket_array = np.empty(_CHUNK, dtype=np.uint64)
    hashes, buckets = pointer(hash_array), pointer(bucket_array)
    n = len(ids)
    for base in range(0, n, _CHUNK):
        m = min(_CHUNK, n - base)
        _begin_search(
            wanted_ids,
            base,
            m,
            hashes,
            buckets,
            tags,
            refs,
            old_tags,
            old_refs,
            state,
            words,
            record,
            wanted,
        )
        for i in range(m):
            rows[base + i] = _end_search(
                ids[base + i],
                hashes[i],
                buckets[i],
                tags,
                refs,
                old_tags,
                old_refs,
                state,
                words,
                record,
            )
    # What the pointers point to must last until here.
    hash_array[0] = bucket_array[0]


@njit(nogil=True, cache=True, error_model="numpy")
def _place(tags, refs, last, mixed, capacity, row):  # type: ignore[no-untyped-def]
    """Puts a row that is not there yet; False when there is no bucket."""
    bucket = _home(mixed, capacity)
    while tags[bucket] != _ZERO_TAG:
        bucket += _ONE
    # The last bucket stays empty: it ends every search.
    if bucket == last:
        return False
    tags[bucket] = _tag(mixed)
    refs[bucket] = row
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def _move(  # type: ignore[no-untyped-def]
    budget, tags, refs, last, old_tags, old_refs, old_last, state, words, record
):
    """Moves at least `budget` buckets, up to the next empty one.

    An empty bucket has only buckets of lower hashes before it, so that a
    frontier drawn there cuts no search in two.
    """
    capacity, old_capacity = state[CAPACITY], state[OLD_CAPACITY]
    cursor = state[CURSOR]
    final = np.int64(old_last)
    stop = min(cursor + budget, final)
    while True:
        end = min(cursor + _CHUNK, final)
        for bucket in range(cursor, end):
            if old_tags[bucket] != _ZERO_TAG:
                prefetch(words, np.uint64(old_refs[bucket]) * record)
        for bucket in range(cursor, end):
            if old_tags[bucket] == _ZERO_TAG:
                if bucket >= stop:
                    end = bucket
                    break
            else:
                row = old_refs[bucket]
                mixed = mix(_id_of(words, record, row))
                if not _place(tags, refs, last, mixed, capacity, row):
                    return False
        cursor = end
        if cursor >= stop and old_tags[cursor] == _ZERO_TAG:
            break
    cursor += 1
    state[CURSOR] = cursor
    if cursor >= old_capacity:
        state[FRONTIER] = _END
    else:
        # The least high half whose home is at the cursor or behind it.
        state[FRONTIER] = -(-(cursor << 32) // old_capacity)
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def find_or_insert(  # type: ignore[no-untyped-def]
    ids,
    begin,
    stop,
    rows,
    new_tags,
    new_refs,
    was_tags,
    was_refs,
    states,
    records,
    record,
):
    """Looks ids up and gives new ones the next row numbers.

    The ids of new rows are written into their records, nothing else.

    Args:
        ids: int64, (n,).
        begin, stop: The ids to work on.
        rows: Receives the rows' numbers, uint32, (n,).
        new_tags, new_refs, was_tags, was_refs, states: The index.
        records: The records as uint32.
        record: Words of a record.

    Returns:
        `stop` when all is done, less when the index must grow first, or
        `_FULL` when the overflow buckets are full; then the index must be
        rebuilt and the call repeated.
    """
    tags, refs = pointer(new_tags), pointer(new_refs)
    old_tags, old_refs = pointer(was_tags), pointer(was_refs)
    last = np.uint64(len(new_tags) - 1)
    old_last = np.uint64(len(was_tags) - 1)
    state, words, wanted_ids = pointer(states), pointer(records), pointer(ids)
    hash_array = np.empty(_CHUNK, dtype=np.uint64)
    bucket_array = np.empty(_CHUNK, dtype=np.uint64)
    hashes, buckets = pointer(hash_array), pointer(bucket_array)
    base = begin
    while base < stop:
        m = min(_CHUNK, stop - base)
        before = state[ROWS]
        if before + m > state[LIMIT]:
            return base
        frontier = np.uint64(state[FRONTIER])
        _begin_search(
            wanted_ids,
            base,
            m,
            hashes,
            buckets,
            tags,
            refs,
            old_tags,
            old_refs,
            state,
            words,
            record,
            record,
        )
        for i in range(m):
            row_id = ids[base + i]
            row = np.uint32(state[ROWS])
            if (hashes[i] >> _S32) < frontier:
                found = _settle_or_put(
                    tags,
                    refs,
                    last,
                    words,
                    record,
                    buckets[i],
                    hashes[i],
                    row_id,
                    row,
                )
            else:
                found = _settle_or_put(
                    old_tags,
                    old_refs,
                    old_last,
                    words,
                    record,
                    buckets[i],
                    hashes[i],
                    row_id,
                    row,
                )
            if found == NOT_FOUND:
                return _FULL
            rows[base + i] = found
            if found == row:
                start = np.uint64(row) * record
                bits = np.uint64(row_id)
                words[start] = np.uint32(bits & _LOW_HALF)
                words[start + _ONE] = np.uint32(bits >> _S32)
                state[ROWS] = np.int64(row) + 1
        inserted = state[ROWS] - before
        if (
            inserted > 0
            and state[FRONTIER] < _END
            and not _move(
                inserted * _MOVES,
                tags,
                refs,
                last,
                old_tags,
                old_refs,
                old_last,
                state,
                words,
                record,
            )
        ):
            return _FULL
        base += m
    # What the pointers point to must last until here.
    hash_array[0] = bucket_array[0]
    return stop


@njit(nogil=True, cache=True, error_model="numpy")
def _settle_or_put(  # type: ignore[no-untyped-def]
    tags, refs, last, words, record, bucket, mixed, row_id, new_row
):
    """Returns an id's row, `new_row` put in its place, or `NOT_FOUND`."""
    tag = _tag(mixed)
    bucket = _settle(tags, refs, words, record, bucket, tag, row_id)
    if tags[bucket] != _ZERO_TAG:
        return refs[bucket]
    if bucket == last:
        return NOT_FOUND
    tags[bucket] = tag
    refs[bucket] = new_row
    return new_row


@njit(nogil=True, cache=True, error_model="numpy")
def move_all(  # type: ignore[no-untyped-def]
    new_tags, new_refs, was_tags, was_refs, states, records, record
):
    """Moves what is still in the old table; False when there is no bucket."""
    return _move(
        len(was_tags),
        pointer(new_tags),
        pointer(new_refs),
        np.uint64(len(new_tags) - 1),
        pointer(was_tags),
        pointer(was_refs),
        np.uint64(len(was_tags) - 1),
        pointer(states),
        pointer(records),
        record,
    )


@njit(nogil=True, cache=True, error_model="numpy")
def fill(new_tags, new_refs, states, records, record):  # type: ignore[no-untyped-def]
    """Puts every row into an empty table; False when there is no bucket."""
    tags, refs, words = pointer(new_tags), pointer(new_refs), pointer(records)
    last = np.uint64(len(new_tags) - 1)
    capacity = states[CAPACITY]
    for row in range(states[ROWS]):
        mixed = mix(_id_of(words, record, row))
        if not _place(tags, refs, last, mixed, capacity, np.uint32(row)):
            return False
    return True


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
        self._state[FRONTIER] = _END
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
        if state[FRONTIER] == _END:
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
        find(
            ids,
            rows,
            self._new.tags,
            self._new.refs,
            self._old.tags,
            self._old.refs,
            self._state,
            self._words,
            self._record,
            np.uint64(wanted),
        )
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
                ids,
                begin,
                min(begin + _BLOCK, n),
                rows,
                self._new.tags,
                self._new.refs,
                self._old.tags,
                self._old.refs,
                self._state,
                self._words,
                self._record,
            )
            if done == _FULL:
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

    def _grow(self) -> None:
        """Begins a larger table."""
        state = self._state
        if state[FRONTIER] < _END and not self._finish():
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
        done = move_all(
            self._new.tags,
            self._new.refs,
            self._old.tags,
            self._old.refs,
            self._state,
            self._words,
            self._record,
        )
        self._give_back()
        return bool(done)

    def _give_back(self) -> None:
        """Returns the memory of moved buckets."""
        if self._state[FRONTIER] == _END:
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
            self._state[FRONTIER] = _END
            if fill(
                self._new.tags,
                self._new.refs,
                self._state,
                self._words,
                self._record,
            ):
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
