"""Which shard owns which row and which part of a dense parameter.

Workers and shards compute all of this on their own and must agree, so it is
a pure function of the ids and of the model's signature.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from elastic_keras.signature import DenseSpec, ModelSignature, StateSpec

# The finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection of 64
# bits whose every output bit depends on every input bit.
MIX_SHIFTS = (30, 27, 31)
MIX_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)

# A dense variable larger than this is split by rows over the shards.
SPLIT_BYTES = 4 << 20
_ITEM_BYTES = 4
# Constraints that look at more than one element at a time.
_NORM_CONSTRAINTS = ("max_norm", "unit_norm", "min_max_norm")
_DENSE, _STATE = 0, 1
_LOW_BITS = np.uint64(0xFFFFFFFF)


def mix(ids: np.ndarray) -> np.ndarray:
    """Hashes ids so that strided ids spread evenly.

    Bits 0 to 31 choose the shard (`owners`); an index inside a shard takes
    its position from the bits above, which are independent of them.

    Args:
        ids: int64 array.

    Returns:
        uint64 array of the same shape.
    """
    ids = np.asarray(ids, np.int64)
    x = ids.view(np.uint64) ^ (ids.view(np.uint64) >> np.uint64(MIX_SHIFTS[0]))
    x *= np.uint64(MIX_MULTIPLIERS[0])
    x ^= x >> np.uint64(MIX_SHIFTS[1])
    x *= np.uint64(MIX_MULTIPLIERS[1])
    x ^= x >> np.uint64(MIX_SHIFTS[2])
    return x


def owners(ids: np.ndarray, num_shards: int) -> np.ndarray:
    """Returns the shard of each id.

    Args:
        ids: int64 array.
        num_shards: Number of shards.

    Returns:
        int32 array of the same shape.
    """
    _check_num_shards(num_shards)
    ids = np.asarray(ids, np.int64)
    if num_shards == 1:
        return np.zeros(ids.shape, np.int32)
    # A multiplication maps 32 bits to [0, num_shards) evenly, and without
    # the division of a modulo.
    x = mix(ids) & _LOW_BITS
    x *= np.uint64(num_shards)
    x >>= np.uint64(32)
    return x.astype(np.int32)


def partition(
    ids: np.ndarray, num_shards: int
) -> tuple[np.ndarray, np.ndarray]:
    """Groups ids by their shard, keeping their order within a shard.

    Args:
        ids: int64 array of shape `(n,)`.
        num_shards: Number of shards.

    Returns:
        `order`, int64 of shape `(n,)`: `ids[order]` is grouped by shard;
        and `counts`, int64 of shape `(num_shards,)`: ids of each shard.
    """
    _check_num_shards(num_shards)
    ids = np.asarray(ids, np.int64)
    if num_shards == 1:
        return np.arange(ids.size), np.array([ids.size], np.int64)
    # On 8 and 16 bits numpy's stable sort is a radix sort.
    kind = np.uint8 if num_shards <= 256 else np.uint16
    shard: np.ndarray = owners(ids, num_shards).astype(kind)
    counts = np.bincount(shard, minlength=num_shards)
    return np.argsort(shard, kind="stable"), counts


def _check_num_shards(num_shards: int) -> None:
    if not 1 <= num_shards <= 65536:
        raise ValueError(
            "num_shards lies between 1 and 65536. "
            f"Received: num_shards={num_shards}"
        )


@dataclasses.dataclass(frozen=True)
class Slice:
    """Rows of one variable that lie on a shard.

    Args:
        index: The variable's position in the signature.
        start_row: First row; 0 for a scalar.
        stop_row: Row after the last; 1 for a scalar.
        offset: Where it begins in the shard's flat buffer, in elements.
        size: Number of elements.
        shape: Its shape: the variable's with fewer rows.
    """

    index: int
    start_row: int
    stop_row: int
    offset: int
    size: int
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class ShardPlacement:
    """What one shard owns of the variables, in routing order.

    Args:
        dense: Slices of the dense parameters.
        states: Slices of the shared non-trainable variables.
        dense_size: Elements of the flat buffer of dense parameters.
        states_size: Elements of the flat buffer of the others.
    """

    dense: tuple[Slice, ...]
    states: tuple[Slice, ...]
    dense_size: int
    states_size: int


@dataclasses.dataclass(frozen=True)
class _Part:
    """A piece of a variable that goes to one shard as a whole."""

    kind: int
    index: int
    start_row: int
    stop_row: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Largest first; then in the signature's order."""
        return (-self.size, self.kind, self.index, self.start_row)


def place(signature: ModelSignature, num_shards: int) -> list[ShardPlacement]:
    """Places every variable of a model on the shards.

    The largest goes first, onto the least loaded shard. A variable over
    4 MiB is split by rows into nearly equal parts, one for each shard,
    unless a constraint takes norms along its rows.

    Args:
        signature: The model.
        num_shards: Number of shards.

    Returns:
        One placement for each shard.
    """
    _check_num_shards(num_shards)
    parts: list[_Part] = []
    for i, dense in enumerate(signature.dense):
        parts.extend(_parts(_DENSE, i, dense, num_shards))
    for i, state in enumerate(signature.states):
        parts.extend(_parts(_STATE, i, state, num_shards))
    loads = [0] * num_shards
    owned: list[list[_Part]] = [[] for _ in range(num_shards)]
    for part in sorted(parts, key=lambda part: part.rank):
        shard = loads.index(min(loads))
        loads[shard] += part.size
        owned[shard].append(part)
    return [_shard_placement(of_shard) for of_shard in owned]


def _parts(
    kind: int, index: int, variable: DenseSpec | StateSpec, num_shards: int
) -> list[_Part]:
    shape = tuple(variable.shape)
    rows = shape[0] if shape else 1
    pieces = 1
    if math.prod(shape) * _ITEM_BYTES > SPLIT_BYTES and _may_split(variable):
        pieces = min(num_shards, rows)
    bounds = [rows * i // pieces for i in range(pieces + 1)]
    return [
        _Part(
            kind,
            index,
            start,
            stop,
            (stop - start, *shape[1:]) if shape else (),
        )
        for start, stop in itertools.pairwise(bounds)
    ]


def _may_split(variable: DenseSpec | StateSpec) -> bool:
    constraint = getattr(variable, "constraint", None)
    if constraint is None or constraint.name not in _NORM_CONSTRAINTS:
        return True
    # No axes means all of them.
    rank = len(variable.shape)
    axes = {axis % rank for axis in constraint.axes}
    return bool(axes) and 0 not in axes


def _shard_placement(parts: Sequence[_Part]) -> ShardPlacement:
    dense, dense_size = _slices([part for part in parts if part.kind == _DENSE])
    states, states_size = _slices(
        [part for part in parts if part.kind == _STATE]
    )
    return ShardPlacement(dense, states, dense_size, states_size)


def _slices(parts: Sequence[_Part]) -> tuple[tuple[Slice, ...], int]:
    # In the signature's order, so that a shard that holds everything holds
    # it as the flat vector is.
    slices = []
    offset = 0
    for part in sorted(parts, key=lambda part: (part.index, part.start_row)):
        slices.append(
            Slice(
                part.index,
                part.start_row,
                part.stop_row,
                offset,
                part.size,
                part.shape,
            )
        )
        offset += part.size
    return tuple(slices), offset


@dataclasses.dataclass(frozen=True)
class _Run:
    """Elements that are contiguous both in the flat vector and on a shard."""

    flat: int
    offset: int
    size: int


class FlatPlan:
    """The way between a flat vector and the shards' buffers.

    The flat vector holds all variables in the signature's order, row-major;
    a shard's buffer holds what it owns, in routing order.

    Args:
        slices: What each shard owns: `[p.dense for p in placements]`, or
            the states.
    """

    def __init__(self, slices: Sequence[Sequence[Slice]]) -> None:
        starts: dict[tuple[int, int], int] = {}
        position = 0
        for part in sorted(
            (part for of_shard in slices for part in of_shard),
            key=lambda part: (part.index, part.start_row),
        ):
            starts[part.index, part.start_row] = position
            position += part.size
        self.size = position
        self.sizes = [sum(part.size for part in s) for s in slices]
        self._runs = [_runs(of_shard, starts) for of_shard in slices]

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """Cuts a flat vector into the shards' buffers.

        Args:
            flat: Array of shape `(size,)`.

        Returns:
            One contiguous array for each shard; a view of `flat` where the
            shard's part of it is contiguous.
        """
        return [self.part(flat, shard) for shard in range(len(self.sizes))]

    def part(self, flat: np.ndarray, shard: int) -> np.ndarray:
        """Cuts one shard's buffer out of a flat vector; see `split`."""
        if flat.shape != (self.size,):
            raise ValueError(
                f"The flat vector has shape ({self.size},). "
                f"Received: flat.shape={flat.shape}"
            )
        runs = self._runs[shard]
        if not runs:
            return flat[:0]
        views = [flat[run.flat : run.flat + run.size] for run in runs]
        return views[0] if len(views) == 1 else np.concatenate(views)

    def join(
        self, buffers: Sequence[np.ndarray], out: np.ndarray | None = None
    ) -> np.ndarray:
        """Puts the shards' buffers together to the flat vector.

        Args:
            buffers: One array of shape `(sizes[i],)` for each shard.
            out: Array of shape `(size,)` to write to, or `None`.

        Returns:
            `out`, or a new array, or the buffer itself where one shard
            holds everything and `out` is `None`.
        """
        shapes = [buffer.shape for buffer in buffers]
        if shapes != [(size,) for size in self.sizes]:
            raise ValueError(
                f"The buffers have the sizes {self.sizes}. "
                f"Received: shapes={shapes}"
            )
        if out is None:
            for buffer in buffers:
                if buffer.size == self.size:
                    return buffer
            out = np.empty(self.size, buffers[0].dtype)
        for buffer, runs in zip(buffers, self._runs, strict=True):
            for run in runs:
                out[run.flat : run.flat + run.size] = buffer[
                    run.offset : run.offset + run.size
                ]
        return out


def _runs(
    of_shard: Sequence[Slice], starts: dict[tuple[int, int], int]
) -> list[_Run]:
    runs: list[_Run] = []
    for part in of_shard:
        flat = starts[part.index, part.start_row]
        if part.size == 0:
            continue
        last = runs[-1] if runs else None
        if last is not None and last.flat + last.size == flat:
            runs[-1] = _Run(last.flat, last.offset, last.size + part.size)
        else:
            runs.append(_Run(flat, part.offset, part.size))
    return runs


@functools.lru_cache(maxsize=32)
def _plan(placements: tuple[ShardPlacement, ...], states: bool) -> FlatPlan:
    return FlatPlan([p.states if states else p.dense for p in placements])


def plan(
    placements: Sequence[ShardPlacement], *, states: bool = False
) -> FlatPlan:
    """Returns the plan of the dense parameters, or of the states."""
    return _plan(tuple(placements), states)


def split(
    flat: np.ndarray,
    placements: Sequence[ShardPlacement],
    *,
    states: bool = False,
) -> list[np.ndarray]:
    """Cuts a flat vector into the shards' buffers; see `FlatPlan.split`."""
    return plan(placements, states=states).split(flat)


def join(
    buffers: Sequence[np.ndarray],
    placements: Sequence[ShardPlacement],
    *,
    states: bool = False,
) -> np.ndarray:
    """Puts the shards' buffers together; see `FlatPlan.join`."""
    return plan(placements, states=states).join(buffers)
