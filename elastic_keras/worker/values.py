"""Parameters and gradients as arrays, on their way to and from shards."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from elastic_keras.worker.grouping import GroupedIds


@dataclasses.dataclass(frozen=True)
class Dense:
    """Dense parameters and states as several shards had them.

    Args:
        versions: Per shard, the version of its part.
        dense: All dense parameters, flat float32 in signature order.
        states: All shared states, flat float32 in signature order.
    """

    versions: tuple[int, ...]
    dense: np.ndarray
    states: np.ndarray


@dataclasses.dataclass(frozen=True)
class Pulled:
    """What one pull brought.

    Args:
        rows: Per table float32 rows in the order of its `GroupedIds`, shape
            (n, dim).
        versions: Per shard, the version that was read.
        dense: The newest dense parameters and states.
        iterations: Optimizer updates applied, the least over the shards.
    """

    rows: list[np.ndarray]
    versions: tuple[int, ...]
    dense: Dense
    iterations: int


@dataclasses.dataclass(frozen=True)
class StepGradients:
    """What a step computed, as arrays.

    Args:
        rows: Per table, in the order of its `GroupedIds`, shape (n, dim).
        dense: Flat float32 in signature order.
        state_deltas: Flat float32 in signature order.
        nonfinite: A gradient is NaN or Inf: none of them is sent.
    """

    rows: Sequence[np.ndarray]
    dense: np.ndarray
    state_deltas: np.ndarray
    nonfinite: bool = False


@dataclasses.dataclass(frozen=True)
class Push:
    """A batch's gradients with all that shards want to know of it.

    Args:
        key: (epoch, task, batch).
        examples: Examples in the batch.
        member: Whose clock the step counts on.
        step: The member's step.
        versions: Per shard, the version that the gradients come from.
        ids: Per table, the ids of the batch.
        gradients: The gradients.
    """

    key: tuple[int, int, int]
    examples: int
    member: int
    step: int
    versions: tuple[int, ...]
    ids: Sequence[GroupedIds]
    gradients: StepGradients
