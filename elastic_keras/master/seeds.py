"""Random numbers that are pure functions of where they are used."""

import numpy as np

ORDER = 1
SHUFFLE = 2

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def keys(seed: int, epoch: int, count: int, purpose: int) -> np.ndarray:
    """Returns one random number for each task of an epoch.

    Args:
        seed: The job's seed.
        epoch: The epoch, from 0.
        count: Number of tasks.
        purpose: `ORDER` or `SHUFFLE`: independent numbers for each.

    Returns:
        uint64 array of shape `(count,)`; entry i depends on the seed, the
        epoch, the purpose and i, and on nothing else.
    """
    state = np.zeros(count, np.uint64)
    for word in (seed, epoch, purpose):
        state = _mix(state ^ np.uint64(word & 0xFFFFFFFFFFFFFFFF))
    return _mix(state ^ np.arange(count, dtype=np.uint64))


def _mix(values: np.ndarray) -> np.ndarray:
    """One step of SplitMix64 on each value: uint64 arrays wrap around."""
    values = values + _GOLDEN
    values = (values ^ (values >> np.uint64(30))) * np.uint64(
        0xBF58476D1CE4E5B9
    )
    values = (values ^ (values >> np.uint64(27))) * np.uint64(
        0x94D049BB133111EB
    )
    return values ^ (values >> np.uint64(31))
