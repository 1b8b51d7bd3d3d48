"""Which shard owns what: every element exactly once, evenly."""

import collections
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from elastic_keras import routing
from elastic_keras.signature import (
    ConstraintSpec,
    DenseSpec,
    ModelSignature,
    OptimizerSpec,
    StateSpec,
)

_num_shards = st.integers(1, 7)
_ids = hnp.arrays(
    np.int64,
    st.integers(0, 200),
    elements=st.integers(-(1 << 63), (1 << 63) - 1),
)


def _mix_in_python(x: int) -> int:
    mask = (1 << 64) - 1
    x &= mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


@given(ids=_ids)
@settings(deadline=None)
def test_mix_is_the_finaliser_of_splitmix64(ids):
    before = ids.copy()
    expected = [_mix_in_python(int(i)) for i in ids]
    mixed = routing.mix(ids)
    assert mixed.dtype == np.uint64
    assert mixed.tolist() == expected
    np.testing.assert_array_equal(ids, before)


def test_mix_never_changes():
    # Snapshots and other hosts depend on these.
    assert routing.mix(np.array([0, 1, -1])).tolist() == [
        0,
        0x5692161D100B05E5,
        0xB4D055FCF2CBBD7B,
    ]
    assert routing.owners(np.arange(8), 3).tolist() == (
        [(_mix_in_python(i) & 0xFFFFFFFF) * 3 >> 32 for i in range(8)]
    )


@pytest.mark.parametrize("stride", [1, 2, 3, 64, 1000, 1 << 20, 1 << 40])
@pytest.mark.parametrize("num_shards", [2, 3, 5, 8, 64])
def test_strided_ids_stay_balanced(stride, num_shards):
    ids = np.arange(20_000, dtype=np.int64) * stride
    counts = np.bincount(routing.owners(ids, num_shards))
    assert len(counts) == num_shards
    mean = ids.size / num_shards
    # Six standard deviations of a fair draw.
    assert np.abs(counts - mean).max() < 6 * math.sqrt(mean)


def test_the_high_bits_are_independent_of_the_owner():
    ids = np.arange(100_000)
    mixed = routing.mix(ids)
    of_one = mixed[routing.owners(ids, 4) == 2]
    counts = np.bincount((of_one >> np.uint64(60)).astype(np.int64))
    mean = of_one.size / 16
    assert np.abs(counts - mean).max() < 6 * math.sqrt(mean)


@given(ids=_ids, num_shards=st.sampled_from([1, 2, 3, 7, 255, 256, 257, 1000]))
@settings(deadline=None)
def test_partition_groups_by_owner_and_keeps_order(ids, num_shards):
    owners = routing.owners(ids, num_shards)
    assert owners.dtype == np.int32
    assert ((owners >= 0) & (owners < num_shards)).all()
    order, counts = routing.partition(ids, num_shards)
    expected = sorted(range(ids.size), key=lambda i: owners[i])
    assert order.tolist() == expected
    assert counts.tolist() == [
        int((owners == shard).sum()) for shard in range(num_shards)
    ]


@pytest.mark.parametrize("num_shards", [0, -1, 65537])
def test_impossible_numbers_of_shards(num_shards):
    ids = np.arange(3)
    for call in (
        lambda: routing.owners(ids, num_shards),
        lambda: routing.partition(ids, num_shards),
        lambda: routing.place(_signature([]), num_shards),
    ):
        with pytest.raises(ValueError, match=f"num_shards={num_shards}"):
            call()


def _signature(dense, states=()) -> ModelSignature:
    return ModelSignature(
        seed=0,
        optimizers=(OptimizerSpec("sgd", 0.1),),
        dense=tuple(dense),
        states=tuple(states),
    )


_CONSTRAINTS = st.sampled_from(
    [
        None,
        ConstraintSpec("non_neg"),
        ConstraintSpec("max_norm", max_value=2.0),
        ConstraintSpec("unit_norm", axes=(-1,)),
        ConstraintSpec("min_max_norm", axes=(0, 1)),
    ]
)


@st.composite
def _signatures(draw):
    small = st.lists(st.integers(0, 5), max_size=3)
    # Above 4 MiB, but nothing here allocates it.
    large = st.tuples(st.integers(1, 40), st.integers(1 << 20, 1 << 22))
    shapes = st.one_of(small, large)
    dense = [
        DenseSpec(
            f"d{i}",
            tuple(shape),
            constraint=draw(_CONSTRAINTS) if len(shape) > 1 else None,
        )
        for i, shape in enumerate(draw(st.lists(shapes, max_size=8)))
    ]
    states = [
        StateSpec(f"s{i}", tuple(shape))
        for i, shape in enumerate(draw(st.lists(shapes, max_size=4)))
    ]
    return _signature(dense, states)


def _check_exactly_once(variables, slices_by_shard):
    """Every row of every variable lies on one shard; buffers have no gaps."""
    rows = collections.defaultdict(list)
    for slices, size in slices_by_shard:
        offset = 0
        for part in slices:
            shape = tuple(variables[part.index].shape)
            assert part.offset == offset
            offset += part.size
            assert part.size == math.prod(part.shape)
            if shape:
                assert part.shape == (
                    part.stop_row - part.start_row,
                    *shape[1:],
                )
            else:
                assert part.shape == ()
            rows[part.index].append((part.start_row, part.stop_row))
        assert offset == size
    for index, variable in enumerate(variables):
        bounds = sorted(rows[index])
        expected = variable.shape[0] if variable.shape else 1
        assert bounds[0][0] == 0
        assert bounds[-1][1] == expected
        for (_, stop), (start, _) in itertools.pairwise(bounds):
            assert stop == start


def _has_row_norms(spec) -> bool:
    constraint = spec.constraint
    return (
        constraint is not None
        and constraint.name != "non_neg"
        and 0 in {axis % len(spec.shape) for axis in constraint.axes}
    )


@given(signature=_signatures(), num_shards=_num_shards)
@settings(deadline=None)
def test_everything_is_placed_exactly_once(signature, num_shards):
    placements = routing.place(signature, num_shards)
    assert placements == routing.place(signature, num_shards)
    assert len(placements) == num_shards
    _check_exactly_once(
        signature.dense, [(p.dense, p.dense_size) for p in placements]
    )
    _check_exactly_once(
        signature.states, [(p.states, p.states_size) for p in placements]
    )


@given(signature=_signatures(), num_shards=_num_shards)
@settings(deadline=None)
def test_only_large_variables_are_split_and_evenly(signature, num_shards):
    placements = routing.place(signature, num_shards)
    for index, spec in enumerate(signature.dense):
        parts = [p for s in placements for p in s.dense if p.index == index]
        size = math.prod(spec.shape)
        if size * 4 <= routing.SPLIT_BYTES or _has_row_norms(spec):
            assert len(parts) == 1
        else:
            lengths = [part.stop_row - part.start_row for part in parts]
            assert len(parts) == min(num_shards, spec.shape[0])
            assert max(lengths) - min(lengths) <= 1


@given(signature=_signatures(), num_shards=_num_shards)
@settings(deadline=None)
def test_the_load_is_balanced(signature, num_shards):
    placements = routing.place(signature, num_shards)
    loads = [p.dense_size + p.states_size for p in placements]
    largest = max(
        (part.size for p in placements for part in (*p.dense, *p.states)),
        default=0,
    )
    # Whoever got a part was the least loaded then.
    assert max(loads) - min(loads) <= largest


def test_one_large_variable_reaches_all_shards():
    signature = _signature([DenseSpec("kernel", (1001, 1100))])
    placements = routing.place(signature, 4)
    assert [p.dense_size // 1100 for p in placements] == [251, 250, 250, 250]


def _arrays(signature, placements):
    """What each shard holds, cut out of numbered variables by hand."""
    flat, variables = [], []
    start = 0
    for spec in signature.dense:
        size = math.prod(spec.shape)
        values = np.arange(start, start + size, dtype=np.float32)
        flat.append(values)
        variables.append(values.reshape(spec.shape or (1,)))
        start += size
    buffers = [
        np.concatenate(
            [np.empty(0, np.float32)]
            + [
                variables[part.index][part.start_row : part.stop_row].ravel()
                for part in p.dense
            ]
        )
        for p in placements
    ]
    return np.concatenate([np.empty(0, np.float32), *flat]), buffers


_medium = st.lists(
    st.lists(st.integers(0, 6), max_size=3).map(tuple), max_size=8
)


@given(shapes=_medium, num_shards=_num_shards, large=st.booleans())
@settings(max_examples=60, deadline=None)
def test_split_and_join(shapes, num_shards, large):
    if large:
        shapes = [*shapes, (13, 100_000), (5,)]
    signature = _signature(
        [DenseSpec(f"d{i}", shape) for i, shape in enumerate(shapes)]
    )
    placements = routing.place(signature, num_shards)
    flat, expected = _arrays(signature, placements)
    buffers = routing.split(flat, placements)
    assert len(buffers) == num_shards
    for got, wanted in zip(buffers, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert got.flags.c_contiguous
    np.testing.assert_array_equal(routing.join(buffers, placements), flat)
    plan = routing.plan(placements)
    out = np.empty(plan.size, np.float32)
    assert plan.join(buffers, out) is out
    np.testing.assert_array_equal(out, flat)


def test_one_shard_copies_nothing():
    signature = _signature(
        [DenseSpec("a", (3, 4)), DenseSpec("b", ()), DenseSpec("c", (50,))]
    )
    placements = routing.place(signature, 1)
    flat = np.arange(63, dtype=np.float32)
    (buffer,) = routing.split(flat, placements)
    assert np.shares_memory(buffer, flat)
    assert routing.join([buffer], placements) is buffer


def test_states_have_a_plan_of_their_own():
    signature = _signature(
        [DenseSpec("a", (3,))], [StateSpec("m", (2,)), StateSpec("v", (4,))]
    )
    placements = routing.place(signature, 2)
    flat = np.arange(6, dtype=np.float32)
    buffers = routing.split(flat, placements, states=True)
    assert sum(buffer.size for buffer in buffers) == 6
    np.testing.assert_array_equal(
        routing.join(buffers, placements, states=True), flat
    )


def test_wrong_sizes_are_named():
    placements = routing.place(_signature([DenseSpec("a", (3,))]), 2)
    with pytest.raises(ValueError, match=r"Received: flat\.shape=\(4,\)"):
        routing.split(np.zeros(4, np.float32), placements)
    with pytest.raises(ValueError, match=r"Received: shapes="):
        routing.join([np.zeros(3, np.float32)] * 2, placements)


def test_an_empty_model():
    placements = routing.place(_signature([]), 3)
    flat = np.empty(0, np.float32)
    assert [b.size for b in routing.split(flat, placements)] == [0, 0, 0]
    assert routing.join([flat] * 3, placements).shape == (0,)
