"""Finding ids among the buckets of an index (see `index`)."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from elastic_keras.ps.pointers import pointer, prefetch

NOT_FOUND = np.uint32(0xFFFFFFFF)
EMPTY = np.uint8(0)

# Where `state` keeps what (int64).
ROWS = 0
CAPACITY = 1
OLD_CAPACITY = 2
FRONTIER = 3  # hashes' high halves below it are in the new table
CURSOR = 4  # next bucket of the old table to move
LIMIT = 5  # rows that the present capacity is good for
STATE_SIZE = 6
END = 1 << 32  # the frontier when there is nothing to move

# Ids that are worked on together, so that their cache misses overlap.
CHUNK = 64

MULTIPLIERS = (0x3C79AC492BA7B653, 0x1C69B3F74AC4AE35)
_A, _B = map(np.uint64, MULTIPLIERS)
_S27, _S32, _S33 = map(np.uint64, (27, 32, 33))
_TAG_MASK = np.uint64(0xFF)
_ONE = np.uint64(1)
_LINE_WORDS = np.uint64(16)


class Parts(NamedTuple):
    """What a search needs: arrays from Python, pointers inside kernels.

    Attributes:
        tags, refs: The buckets of the table.
        old_tags, old_refs: Those of the table before, while it is moved.
        state: See `ROWS` and the names below it.
        words: The records as uint32.
        record: Words of a record.
    """

    tags: Any
    refs: Any
    old_tags: Any
    old_refs: Any
    state: Any
    words: Any
    record: Any


@njit(nogil=True, cache=True, error_model="numpy")
def pointers(arrays):  # type: ignore[no-untyped-def]
    """Returns an index's parts as pointers."""
    return Parts(
        pointer(arrays.tags),
        pointer(arrays.refs),
        pointer(arrays.old_tags),
        pointer(arrays.old_refs),
        pointer(arrays.state),
        pointer(arrays.words),
        arrays.record,
    )


@njit(nogil=True, cache=True, error_model="numpy")
def mix(row_id):  # type: ignore[no-untyped-def]
    """Returns the hash of an id, uint64; one to one."""
    x = np.uint64(row_id)
    x = (x ^ (x >> _S27)) * _A
    x = (x ^ (x >> _S33)) * _B
    return x ^ (x >> _S27)


@njit(nogil=True, cache=True, error_model="numpy")
def tag_of(mixed):  # type: ignore[no-untyped-def]
    tag = mixed & _TAG_MASK
    return np.uint8(tag) if tag else np.uint8(1)


@njit(nogil=True, cache=True, error_model="numpy")
def home_of(mixed, capacity):  # type: ignore[no-untyped-def]
    return ((mixed >> _S32) * np.uint64(capacity)) >> _S32


@njit(nogil=True, cache=True, error_model="numpy")
def id_of(words, record, row):  # type: ignore[no-untyped-def]
    start = np.uint64(row) * record
    low = np.uint64(words[start])
    return np.int64(low | (np.uint64(words[start + _ONE]) << _S32))


@njit(nogil=True, cache=True, error_model="numpy")
def _candidate(tags, bucket, tag):  # type: ignore[no-untyped-def]
    """Returns the first bucket from `bucket` on with the tag, or empty."""
    while tags[bucket] != tag and tags[bucket] != EMPTY:
        bucket += _ONE
    return bucket


@njit(nogil=True, cache=True, error_model="numpy")
def settle(tags, refs, words, record, bucket, tag, row_id):  # type: ignore[no-untyped-def]
    """Returns the bucket of an id, or the empty one that ends the search."""
    while True:
        bucket = _candidate(tags, bucket, tag)
        if tags[bucket] == EMPTY:
            return bucket
        if id_of(words, record, refs[bucket]) == row_id:
            return bucket
        bucket += _ONE


@njit(nogil=True, cache=True, error_model="numpy")
def begin_search(ids, base, m, hashes, buckets, at, wanted):  # type: ignore[no-untyped-def]
    """Finds candidates of m ids and asks for their rows' memory.

    Args:
        ids: The ids.
        base: The first to work on.
        m: How many.
        hashes, buckets: Receive the ids' hashes and candidates.
        at: The index.
        wanted: Words of a record that will be read.
    """
    frontier = np.uint64(at.state[FRONTIER])
    for i in range(m):
        mixed = mix(ids[base + i])
        hashes[i] = mixed
        if (mixed >> _S32) < frontier:
            home = home_of(mixed, at.state[CAPACITY])
            prefetch(at.tags, home)
            prefetch(at.refs, home)
        else:
            home = home_of(mixed, at.state[OLD_CAPACITY])
            prefetch(at.old_tags, home)
            prefetch(at.old_refs, home)
        buckets[i] = home
    for i in range(m):
        mixed = hashes[i]
        tag = tag_of(mixed)
        row = np.uint32(0)
        if (mixed >> _S32) < frontier:
            bucket = _candidate(at.tags, buckets[i], tag)
            found = at.tags[bucket] != EMPTY
            if found:
                row = at.refs[bucket]
        else:
            bucket = _candidate(at.old_tags, buckets[i], tag)
            found = at.old_tags[bucket] != EMPTY
            if found:
                row = at.old_refs[bucket]
        buckets[i] = bucket
        if found:
            start = np.uint64(row) * at.record
            for line in range(np.uint64(0), wanted, _LINE_WORDS):
                prefetch(at.words, start + line)
            prefetch(at.words, start + wanted - _ONE)


@njit(nogil=True, cache=True, error_model="numpy")
def _row_in(tags, refs, at, bucket, mixed, row_id):  # type: ignore[no-untyped-def]
    """Returns the row of an id in one of the tables, or `NOT_FOUND`."""
    bucket = settle(
        tags, refs, at.words, at.record, bucket, tag_of(mixed), row_id
    )
    return refs[bucket] if tags[bucket] != EMPTY else NOT_FOUND


@njit(nogil=True, cache=True, error_model="numpy")
def find(ids, rows, arrays, wanted):  # type: ignore[no-untyped-def]
    """Looks ids up.

    Args:
        ids: int64, (n,).
        rows: Receives the rows' numbers or `NOT_FOUND`, uint32, (n,).
        arrays: The index.
        wanted: Words of a record to bring into the cache.
    """
    at, wanted_ids = pointers(arrays), pointer(ids)
    hash_array = np.empty(CHUNK, dtype=np.uint64)
    bucket_array = np.empty(CHUNK, dtype=np.uint64)
    hashes, buckets = pointer(hash_array), pointer(bucket_array)
    n = len(ids)
    for base in range(0, n, CHUNK):
        m = min(CHUNK, n - base)
        begin_search(wanted_ids, base, m, hashes, buckets, at, wanted)
        frontier = np.uint64(at.state[FRONTIER])
        for i in range(m):
            row_id, mixed, bucket = ids[base + i], hashes[i], buckets[i]
            if (mixed >> _S32) < frontier:
                row = _row_in(at.tags, at.refs, at, bucket, mixed, row_id)
            else:
                row = _row_in(
                    at.old_tags, at.old_refs, at, bucket, mixed, row_id
                )
            rows[base + i] = row
    # What the pointers point to must last until here.
    hash_array[0] = bucket_array[0]
