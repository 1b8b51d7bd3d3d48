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
        end = min(cursor + CHUNK, final)
        for bucket in range(cursor, end):
            if old_tags[bucket] != EMPTY:
                prefetch(words, np.uint64(old_refs[bucket]) * record)
        for bucket in range(cursor, end):
            if old_tags[bucket] == EMPTY:
                if bucket >= stop:
                    end = bucket
                    break
            else:
                row = old_refs[bucket]
                mixed = mix(id_of(words, record, row))
                if not _place(tags, refs, last, mixed, capacity, row):
                    return False
        cursor = end
        if cursor >= stop and old_tags[cursor] == EMPTY:
            break
    cursor += 1
    state[CURSOR] = cursor
    if cursor >= old_capacity:
        state[FRONTIER] = END
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
        `FULL` when the overflow buckets are full; then the index must be
        rebuilt and the call repeated.
    """
    tags, refs = pointer(new_tags), pointer(new_refs)
    old_tags, old_refs = pointer(was_tags), pointer(was_refs)
    last = np.uint64(len(new_tags) - 1)
    old_last = np.uint64(len(was_tags) - 1)
    state, words, wanted_ids = pointer(states), pointer(records), pointer(ids)
    hash_array = np.empty(CHUNK, dtype=np.uint64)
    bucket_array = np.empty(CHUNK, dtype=np.uint64)
    hashes, buckets = pointer(hash_array), pointer(bucket_array)
    base = begin
    while base < stop:
        m = min(CHUNK, stop - base)
        before = state[ROWS]
        if before + m > state[LIMIT]:
            return base
        frontier = np.uint64(state[FRONTIER])
        begin_search(
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
                return FULL
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
            and state[FRONTIER] < END
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
            return FULL
        base += m
    # What the pointers point to must last until here.
    hash_array[0] = bucket_array[0]
    return stop


@njit(nogil=True, cache=True, error_model="numpy")
def _settle_or_put(  # type: ignore[no-untyped-def]
    tags, refs, last, words, record, bucket, mixed, row_id, new_row
):
    """Returns an id's row, `new_row` put in its place, or `NOT_FOUND`."""
    tag = tag_of(mixed)
    bucket = settle(tags, refs, words, record, bucket, tag, row_id)
    if tags[bucket] != EMPTY:
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
        mixed = mix(id_of(words, record, row))
        if not _place(tags, refs, last, mixed, capacity, np.uint32(row)):
            return False
    return True
