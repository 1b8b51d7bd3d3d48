"""The order in which a task's records are trained."""

from collections.abc import Collection

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def order(count: int, seed: int) -> np.ndarray:
    """Returns a permutation that depends on nothing but its arguments.

    Records are sorted by a hash of their number and the seed: unlike a
    library's generator this gives the same order for ever, which a task that
    moves to another worker relies on.

    Args:
        count: Number of records.
        seed: Any integer.

    Returns:
        The positions 0 to `count - 1`, int64 of shape `(count,)`.
    """
    start = _mix(np.array([seed & (2**64 - 1)], np.uint64))
    numbers = np.arange(count, dtype=np.uint64)
    keys = _mix(start + (numbers + np.uint64(1)) * _GOLDEN)
    return np.argsort(keys, kind="stable")


def kept(
    count: int, seed: int | None, leave_out: Collection[int] = ()
) -> np.ndarray:
    """Returns an order of all records, then without some of them.

    Args:
        count: Number of records.
        seed: As for `order`; `None` keeps the records as they are.
        leave_out: Positions that the result lacks.

    Returns:
        Positions, int64 of shape `(count - len(leave_out),)`.
    """
    everything = np.arange(count) if seed is None else order(count, seed)
    if not leave_out:
        return everything
    return everything[~np.isin(everything, list(leave_out))]


def _mix(values: np.ndarray) -> np.ndarray:
    """Mixes 64-bit integers (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))
