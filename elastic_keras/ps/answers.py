"""What a shard answers to pulls and pushes."""

import dataclasses
import enum

import numpy as np


class Outcome(enum.Enum):
    """What became of a push."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    NONFINITE = "nonfinite"


@dataclasses.dataclass(frozen=True)
class PushResult:
    """The answer to a push.

    Args:
        outcome: What became of it.
        version: The shard's version afterwards.
        staleness: The push's staleness; 0 where it was not judged.
    """

    outcome: Outcome
    version: int
    staleness: int = 0


@dataclasses.dataclass(frozen=True)
class Pulled:
    """The answer to a pull.

    Args:
        version: Every push up to it is in the values.
        iterations: Optimizer updates that are in the values.
        rows: float32 of shape (n, dim) for each table asked for.
        dense: Flat dense parameters, or `None` where the caller's are the
            newest.
        states: Flat states, together with `dense`.
        dense_version: To be sent with the next pull.
    """

    version: int
    iterations: int
    rows: list[np.ndarray]
    dense: np.ndarray | None
    states: np.ndarray | None
    dense_version: int

    @property
    def nbytes(self) -> int:
        """Size of all values."""
        arrays = (*self.rows, self.dense, self.states)
        return sum(array.nbytes for array in arrays if array is not None)
