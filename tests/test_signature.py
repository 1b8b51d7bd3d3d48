"""Model signatures: one model, one text; nothing impossible gets in."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastic_keras.signature import (
    CONSTRAINTS,
    INITIALIZERS,
    ConstraintSpec,
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    ScheduleSpec,
    StateSpec,
    TableSpec,
)

_floats = st.floats(allow_nan=False, allow_infinity=False, width=32)
_names = st.text(min_size=1, max_size=5)
_shapes = st.lists(st.integers(0, 9), max_size=3).map(tuple)

_schedules = st.builds(
    ScheduleSpec,
    _names,
    st.dictionaries(_names, st.one_of(_floats, st.booleans(), _names)),
)
_optimizers = st.builds(
    OptimizerSpec,
    name=_names,
    learning_rate=_floats,
    schedule=st.none() | _schedules,
    hyper=st.dictionaries(_names, st.one_of(_floats, st.booleans())),
    weight_decay=st.none() | _floats,
    use_ema=st.booleans(),
    ema_momentum=st.floats(0, 1),
    ema_overwrite_frequency=st.none() | st.integers(1, 100),
)


def _constraints(axes):
    return st.none() | st.builds(
        ConstraintSpec,
        st.sampled_from(CONSTRAINTS),
        _floats,
        _floats,
        _floats,
        axes,
    )


@st.composite
def _dense(draw):
    shape = draw(_shapes)
    axes = st.lists(st.integers(-len(shape), len(shape) - 1)).map(tuple)
    constraint = draw(_constraints(axes)) if shape else None
    return DenseSpec(draw(_names), shape, 0, draw(st.booleans()), constraint)


_tables = st.builds(
    TableSpec,
    name=_names,
    dim=st.integers(1, 1 << 20),
    initializer=st.builds(
        InitializerSpec, st.sampled_from(INITIALIZERS), _floats, _floats
    ),
    optimizer=st.just(0),
    weight_decay=st.booleans(),
    constraint=_constraints(st.just((0,))),
)
_signatures = st.builds(
    ModelSignature,
    seed=st.integers(0, (1 << 63) - 1),
    optimizers=st.lists(_optimizers, min_size=1, max_size=3).map(tuple),
    dense=st.lists(_dense(), max_size=4).map(tuple),
    states=st.lists(st.builds(StateSpec, _names, _shapes), max_size=3).map(
        tuple
    ),
    tables=st.lists(
        _tables, max_size=3, unique_by=lambda table: table.name
    ).map(tuple),
    features=st.text(max_size=5),
)

SIGNATURE = ModelSignature(
    seed=1,
    optimizers=(
        OptimizerSpec(
            "adam",
            0.1,
            schedule=ScheduleSpec("CosineDecay", {"decay_steps": 5}),
            hyper={"beta_1": 0.9},
            weight_decay=0.01,
        ),
    ),
    dense=(DenseSpec("kernel", (3, 4), constraint=ConstraintSpec("non_neg")),),
    states=(StateSpec("mean", (4,)),),
    tables=(TableSpec("user", 8),),
)


@given(signature=_signatures)
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_json_round_trip(signature):
    read = ModelSignature.from_json(signature.to_json())
    assert read == signature
    assert read.to_json() == signature.to_json()
    assert read.sha256() == signature.sha256()


def test_equal_models_make_equal_texts():
    plain = ModelSignature(
        seed=1,
        optimizers=(
            OptimizerSpec("sgd", 1.0, hyper={"nesterov": 1.0, "momentum": 0.5}),
        ),
        dense=(DenseSpec("a", (2, 3)),),
        tables=(TableSpec("t", 8, InitializerSpec("uniform", -1.0, 1.0)),),
    )
    other = ModelSignature(
        seed=np.int64(1),
        optimizers=[
            OptimizerSpec(
                "sgd",
                1,
                hyper={"momentum": np.float32(0.5), "nesterov": True},
            )
        ],
        dense=[DenseSpec("a", [np.int32(2), 3], optimizer=np.int64(0))],
        tables=[TableSpec("t", np.int64(8), InitializerSpec("uniform", -1, 1))],
    )
    assert other == plain
    assert other.to_json() == plain.to_json()


@pytest.mark.parametrize("field", ["seed", "optimizers", "dense", "tables"])
def test_another_model_has_another_fingerprint(field):
    other = ModelSignature(
        seed=2,
        optimizers=(dataclasses.replace(SIGNATURE.optimizers[0], name="sgd"),),
        dense=(dataclasses.replace(SIGNATURE.dense[0], weight_decay=False),),
        tables=(TableSpec("user", 9),),
    )
    changed = dataclasses.replace(SIGNATURE, **{field: getattr(other, field)})
    assert changed.sha256() != SIGNATURE.sha256()


def test_features_are_of_training_only():
    other = dataclasses.replace(SIGNATURE, features='{"dict":{}}')
    assert other.sha256() != SIGNATURE.sha256()
    assert other.for_reading() == SIGNATURE.for_reading()


def test_older_texts_have_no_features():
    raw = json.loads(SIGNATURE.to_json())
    del raw["features"]
    assert ModelSignature.from_json(json.dumps(raw)) == SIGNATURE


def _raw(*path, value) -> str:
    raw = json.loads(SIGNATURE.to_json())
    at = raw
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return json.dumps(raw)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("seed",), -1),
        (("seed",), 1 << 63),
        (("features",), 1),
        (("optimizers", 0, "learning_rate"), float("nan")),
        (("optimizers", 0, "learning_rate"), float("inf")),
        (("optimizers", 0, "learning_rate"), 1e39),
        (("optimizers", 0, "hyper", "beta_1"), float("nan")),
        (("optimizers", 0, "weight_decay"), float("inf")),
        (("optimizers", 0, "ema_momentum"), 1.5),
        (("optimizers", 0, "ema_overwrite_frequency"), 0),
        (("optimizers", 0, "schedule", "config"), []),
        (("optimizers", 0, "name"), ""),
        (("dense", 0, "name"), 3),
        (("dense", 0, "shape"), [3, -4]),
        (("dense", 0, "shape"), [1 << 40, 1 << 40]),
        (("dense", 0, "shape"), [1] * 40),
        (("dense", 0, "optimizer"), 1),
        (("dense", 0, "optimizer"), -1),
        (("dense", 0, "constraint", "name"), "max"),
        (("dense", 0, "constraint", "axes"), [2]),
        (("dense", 0, "constraint", "rate"), float("nan")),
        (("states", 0, "shape"), [-1]),
        (("tables", 0, "dim"), 0),
        (("tables", 0, "dim"), (1 << 20) + 1),
        (("tables", 0, "optimizer"), 7),
        (("tables", 0, "initializer", "name"), "zeros"),
        (("tables", 0, "initializer", "a"), float("-inf")),
    ],
)
def test_impossible_values_are_named(path, value):
    with pytest.raises(ValueError, match=r"signature: .*Received: ") as caught:
        ModelSignature.from_json(_raw(*path, value=value))
    assert path[0] in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{}",
        "[" * 100_000,
        _raw("seed", value="1"),
        _raw("seed", value=1.5),
        _raw("seed", value=float("inf")),
        _raw("optimizers", value=None),
        _raw("optimizers", 0, "learning_rate", value="0.1"),
        _raw("optimizers", 0, "hyper", value=[1]),
        _raw("optimizers", 0, "schedule", value={"name": "x"}),
        _raw("optimizers", 0, "extra", value=1),
        _raw("dense", 0, "shape", value=3),
        _raw("dense", 0, "shape", value=[1.5]),
        _raw("dense", 0, "constraint", value={"name": "x", "radius": 1}),
        _raw("states", 0, value=["mean", [4]]),
        _raw("tables", 0, "dim", value="8"),
    ],
)
def test_other_json_is_refused(text):
    with pytest.raises(ValueError, match=r"Not a model signature: .*Received"):
        ModelSignature.from_json(text)


def test_a_table_has_one_name():
    doubled = dataclasses.replace(SIGNATURE, tables=SIGNATURE.tables * 2)
    with pytest.raises(ValueError, match=r"tables\[0\]\.name"):
        doubled.check()
