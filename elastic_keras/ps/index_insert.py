"""Putting ids into the buckets of an index, and moving buckets."""

import numpy as np
from numba import njit

from elastic_keras.ps.index_search import (
    CAPACITY,
    CHUNK,
    CURSOR,
    EMPTY,
    END,
    FRONTIER,
    LIMIT,
    NOT_FOUND,
    OLD_CAPACITY,
    ROWS,
    begin_search,
    home_of,
    id_of,
    mix,
    pointers,
    settle,
    tag_of,
)
from elastic_keras.ps.pointers import pointer, prefetch

# What `find_or_insert` returns when the overflow buckets are full.
FULL = -1
# Buckets moved for an inserted id. A growth by a quarter at 80 % load must be
# done within 0.2 capacities of insertions, so at least 5; with more, fewer
# rows are inserted into the still full part of the old table.
_MOVES = 10

_S32 = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)


@njit(nogil=True, cache=True, error_model="numpy")
def _place(tags, refs, last, mixed, capacity, row):  # type: ignore[no-untyped-def]
    """Puts a row that is not there yet; False when there is no bucket."""
    bucket = home_of(mixed, capacity)
    while tags[bucket] != EMPTY:
        bucket += _ONE
    # The last bucket stays empty: it ends every search.
    if bucket == last:
        return False
    tags[bucket] = tag_of(mixed)
    refs[bucket] = row
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def _move(budget, at, last, old_last):  # type: ignore[no-untyped-def]
    """Moves at least `budget` buckets, up to the next empty one.

    An empty bucket has only buckets of lower hashes before it, so that a
    frontier drawn there cuts no search in two.
    """
    capacity, old_capacity = at.state[CAPACITY], at.state[OLD_CAPACITY]
    cursor = at.state[CURSOR]
    final = np.int64(old_last)
    stop = min(cursor + budget, final)
    while True:
        end = min(cursor + CHUNK, final)
        for bucket in range(cursor, end):
            if at.old_tags[bucket] != EMPTY:
                prefetch(at.words, np.uint64(at.old_refs[bucket]) * at.record)
        for bucket in range(cursor, end):
            if at.old_tags[bucket] == EMPTY:
                if bucket >= stop:
                    end = bucket
                    break
            else:
                row = at.old_refs[bucket]
                mixed = mix(id_of(at.words, at.record, row))
                if not _place(at.tags, at.refs, last, mixed, capacity, row):
                    return False
        cursor = end
        if cursor >= stop and at.old_tags[cursor] == EMPTY:
            break
    cursor += 1
    at.state[CURSOR] = cursor
    if cursor >= old_capacity:
        at.state[FRONTIER] = END
    else:
        # The least high half whose home is at the cursor or behind it.
        at.state[FRONTIER] = -(-(cursor << 32) // old_capacity)
    return True


@njit(nogil=True, cache=True, error_model="numpy")
def find_or_insert(ids, begin, stop, rows, arrays):  # type: ignore[no-untyped-def]
    """Looks ids up and gives new ones the next row numbers.

    The ids of new rows are written into their records, nothing else.

    Args:
        ids: int64, (n,).
        begin, stop: The ids to work on.
        rows: Receives the rows' numbers, uint32, (n,).
        arrays: The index.

    Returns:
        `stop` when all is done, less when the index must grow first, or
        `FULL` when the overflow buckets are full; then the index must be
        rebuilt and the call repeated.
    """
    at, wanted_ids = pointers(arrays), pointer(ids)
    last = np.uint64(len(arrays.tags) - 1)
    old_last = np.uint64(len(arrays.old_tags) - 1)
    hash_array = np.empty(CHUNK, dtype=np.uint64)
    bucket_array = np.empty(CHUNK, dtype=np.uint64)
    hashes, buckets = pointer(hash_array), pointer(bucket_array)
    base = begin
    while base < stop:
        m = min(CHUNK, stop - base)
        before = at.state[ROWS]
        if before + m > at.state[LIMIT]:
            return base
        begin_search(wanted_ids, base, m, hashes, buckets, at, at.record)
        frontier = np.uint64(at.state[FRONTIER])
        for i in range(m):
            row_id, mixed, bucket = ids[base + i], hashes[i], buckets[i]
            row = np.uint32(at.state[ROWS])
            if (mixed >> _S32) < frontier:
                found = _settle_or_put(
                    at.tags, at.refs, last, at, bucket, mixed, row_id, row
                )
            else:
                found = _settle_or_put(
                    at.old_tags,
                    at.old_refs,
                    old_last,
                    at,
                    bucket,
                    mixed,
                    row_id,
                    row,
                )
            if found == NOT_FOUND:
                return FULL
            rows[base + i] = found
            if found == row:
                start = np.uint64(row) * at.record
                bits = np.uint64(row_id)
                at.words[start] = np.uint32(bits & _LOW_HALF)
                at.words[start + _ONE] = np.uint32(bits >> _S32)
                at.state[ROWS] = np.int64(row) + 1
        inserted = at.state[ROWS] - before
        if (
            inserted > 0
            and at.state[FRONTIER] < END
            and not _move(inserted * _MOVES, at, last, old_last)
        ):
            return FULL
        base += m
    # What the pointers point to must last until here.
    hash_array[0] = bucket_array[0]
    return stop


@njit(nogil=True, cache=True, error_model="numpy")
def _settle_or_put(tags, refs, last, at, bucket, mixed, row_id, new_row):  # type: ignore[no-untyped-def]
    """Returns an id's row, `new_row` put in its place, or `NOT_FOUND`."""
    tag = tag_of(mixed)
    bucket = settle(tags, refs, at.words, at.record, bucket, tag, row_id)
    if tags[bucket] != EMPTY:
        return refs[bucket]
    if bucket == last:
        return NOT_FOUND
    tags[bucket] = tag
    refs[bucket] = new_row
    return new_row


@njit(nogil=True, cache=True, error_model="numpy")
def move_all(arrays):  # type: ignore[no-untyped-def]
    """Moves what is still in the old table; False when there is no bucket."""
    old_count = len(arrays.old_tags)
    return _move(
        old_count,
        pointers(arrays),
        np.uint64(len(arrays.tags) - 1),
        np.uint64(old_count - 1),
    )


@njit(nogil=True, cache=True, error_model="numpy")
def fill(arrays):  # type: ignore[no-untyped-def]
    """Puts every row into an empty table; False when there is no bucket."""
    at = pointers(arrays)
    last = np.uint64(len(arrays.tags) - 1)
    capacity = at.state[CAPACITY]
    for row in range(at.state[ROWS]):
        mixed = mix(id_of(at.words, at.record, row))
        if not _place(at.tags, at.refs, last, mixed, capacity, np.uint32(row)):
            return False
    return True
