"""Dense parameters on shards."""

import math

import numpy as np
import pytest

from elastic_keras.ps.dense import DenseParameters
from elastic_keras.routing import ShardPlacement, Slice, place
from elastic_keras.signature import (
    ConstraintSpec,
    DenseSpec,
    ModelSignature,
    OptimizerSpec,
    StateSpec,
)

_ADAM = OptimizerSpec("adam", 0.1, weight_decay=0.1)
_NADAM = OptimizerSpec("nadam", 0.1, use_ema=True)
_ADAGRAD = OptimizerSpec("adagrad", 0.1)


def _signature():
    return ModelSignature(
        seed=0,
        optimizers=(_ADAM, _NADAM, _ADAGRAD),
        dense=(
            DenseSpec("kernel", (6, 5)),
            DenseSpec("bias", (5,), weight_decay=False),
            DenseSpec("scale", (), optimizer=1),
            DenseSpec(
                "positive",
                (4,),
                optimizer=2,
                constraint=ConstraintSpec("non_neg"),
            ),
        ),
        states=(StateSpec("mean", (5,)),),
    )


def _whole(signature):
    return DenseParameters(place(signature, 1)[0], signature)


def _draw(size, seed=0):
    return np.random.default_rng(seed).normal(size=size).astype(np.float32)


def _placement(*pieces):
    """A shard of rows: (index, start_row, stop_row, shape)."""
    slices, offset = [], 0
    for index, start, stop, shape in pieces:
        size = math.prod(shape)
        slices.append(Slice(index, start, stop, offset, size, shape))
        offset += size
    return ShardPlacement(tuple(slices), (), offset, 0)


def test_a_split_variable_gets_the_same_bits():
    signature = ModelSignature(
        seed=0, optimizers=(_NADAM,), dense=(DenseSpec("kernel", (7, 3)),)
    )
    whole = DenseParameters(_placement((0, 0, 7, (7, 3))), signature)
    first = DenseParameters(_placement((0, 0, 2, (2, 3))), signature)
    second = DenseParameters(_placement((0, 2, 7, (5, 3))), signature)
    start, none = _draw(21), np.zeros(0, np.float32)
    whole.initialize(start, none)
    first.initialize(start[:6], none)
    second.initialize(start[6:], none)
    for step in range(20):
        gradients = _draw(21, seed=step + 1)
        rates = {"learning_rates": [0.1], "iteration": step}
        whole.apply(gradients, **rates)
        first.apply(gradients[:6], **rates)
        second.apply(gradients[6:], **rates)
    both = np.concatenate([first.values, second.values])
    assert np.array_equal(whole.values, both)
    for dense in (whole, first, second):
        dense.finalize()
    both = np.concatenate([first.values, second.values])
    assert np.array_equal(whole.values, both)


def test_each_variable_has_its_own_optimizer_decay_and_constraint():
    signature = _signature()
    placement = place(signature, 1)[0]
    dense = _whole(signature)
    start = _draw(placement.dense_size)
    dense.initialize(start, np.zeros(5, np.float32))
    zeros = np.zeros_like(start)
    dense.apply(zeros, learning_rates=[0.1, 0.2, 0.3], iteration=0)
    for piece in placement.dense:
        part = slice(piece.offset, piece.offset + piece.size)
        expected = start[part]
        if signature.dense[piece.index].name == "kernel":
            expected = expected - expected * np.float32(0.1) * np.float32(0.1)
        if signature.dense[piece.index].name == "positive":
            expected = np.maximum(expected, 0)
        assert np.array_equal(dense.values[part], expected)
    ones = np.ones_like(start)
    before = dense.values.copy()
    dense.apply(ones, learning_rates=[0.0, 0.2, 0.0], iteration=1)
    moved = before != dense.values
    for piece in placement.dense:
        part = slice(piece.offset, piece.offset + piece.size)
        name = signature.dense[piece.index].name
        assert moved[part].any() == (name == "scale")


def test_slots_are_as_long_as_the_parameters_and_can_be_set():
    signature = _signature()
    one, other = _whole(signature), _whole(signature)
    start, states = _draw(40), _draw(5)
    for dense in (one, other):
        dense.initialize(start, states)
    rates = [0.1, 0.1, 0.1]
    for step in range(3):
        one.apply(_draw(40, step), learning_rates=rates, iteration=step)
    slots = one.slots()
    assert set(slots) == {
        "momentum",
        "velocity",
        "average",
        "accumulator",
        "product",
    }
    assert all(
        len(slot) == (4 if name == "product" else 40)
        for name, slot in slots.items()
    )
    other.initialize(one.values, one.states)
    other.restore_slots(slots)
    for dense in (one, other):
        dense.apply(_draw(40, 9), learning_rates=rates, iteration=3)
    assert np.array_equal(one.values, other.values)
    one.finalize()
    other.finalize()
    assert np.array_equal(one.values, other.values)
    with pytest.raises(ValueError, match="The slots are"):
        one.restore_slots({})


def test_initialize_begins_anew():
    signature = _signature()
    dense, fresh = _whole(signature), _whole(signature)
    dense.apply(_draw(40), learning_rates=[0.1] * 3, iteration=0)
    dense.initialize(_draw(40, 1), _draw(5))
    fresh.initialize(_draw(40, 1), _draw(5))
    for name, slot in fresh.slots().items():
        assert np.array_equal(dense.slots()[name], slot)
    assert np.all(fresh.slots()["accumulator"][-1:] >= 0)


def test_states_add_up():
    dense = _whole(_signature())
    first, second = _draw(5, 1), _draw(5, 2)
    dense.initialize(np.zeros(40, np.float32), first)
    dense.add_states(second)
    dense.add_states(second)
    assert np.array_equal(dense.states, first + second + second)


def test_a_model_without_dense_parameters_works():
    signature = ModelSignature(seed=0, optimizers=(_ADAM,))
    dense = _whole(signature)
    none = np.zeros(0, np.float32)
    dense.initialize(none, none)
    dense.apply(none, learning_rates=[0.1], iteration=0)
    dense.finalize()
    assert dense.slots() == {}


@pytest.mark.parametrize(
    ("gradients", "options", "message"),
    [
        (_draw(39), {}, r"\(40,\).*\(39,\)"),
        (np.zeros(40), {}, "float32.*float64"),
        (_draw(40), {"learning_rates": [0.1]}, "3 finite numbers"),
        (_draw(40), {"learning_rates": [0.1, math.nan, 0.1]}, "nan"),
        (_draw(40), {"iteration": -1}, "iteration=-1"),
    ],
)
def test_bad_arguments_change_nothing(gradients, options, message):
    dense = _whole(_signature())
    before = dense.values.copy()
    with pytest.raises(ValueError, match=message):
        dense.apply(
            gradients,
            **{"learning_rates": [0.1] * 3, "iteration": 0, **options},
        )
    assert np.array_equal(dense.values, before)


@pytest.mark.parametrize(
    ("values", "states"), [(39, 5), (40, 4)], ids=["values", "states"]
)
def test_first_values_must_fit(values, states):
    dense = _whole(_signature())
    with pytest.raises(ValueError, match="must have shape"):
        dense.initialize(_draw(values), _draw(states))
    assert not dense.values.any()
    assert not dense.states.any()
