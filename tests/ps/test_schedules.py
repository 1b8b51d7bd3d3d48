"""Schedules beside Keras's."""

import keras
import numpy as np
import pytest

from elastic_keras.ps.schedules import learning_rate
from elastic_keras.signature import OptimizerSpec, ScheduleSpec

_STEPS = [*range(130), 999, 1000, 1001, 20_000, 3_000_000]
_CASES = [
    ("ExponentialDecay", (0.1, 7, 0.9), {}),
    ("ExponentialDecay", (0.1, 7, 0.9), {"staircase": True}),
    ("PiecewiseConstantDecay", ([10, 50, 51], [1.0, 0.5, 0.1, 0.0]), {}),
    ("PiecewiseConstantDecay", ([10.7], [1.0, 0.5]), {}),
    ("PolynomialDecay", (0.1, 50), {}),
    ("PolynomialDecay", (0.1, 50, 0.01), {"power": 0.5}),
    ("PolynomialDecay", (0.1, 50, 0.01), {"power": 2.0, "cycle": True}),
    ("InverseTimeDecay", (0.1, 7, 0.5), {}),
    ("InverseTimeDecay", (0.1, 7, 0.5), {"staircase": True}),
    ("CosineDecay", (0.1, 90), {}),
    ("CosineDecay", (0.1, 90), {"alpha": 0.1}),
    ("CosineDecay", (0.0, 60), {"warmup_target": 0.1, "warmup_steps": 30}),
    (
        "CosineDecay",
        (0.01, 60),
        {"warmup_target": 0.1, "warmup_steps": 30, "alpha": 0.2},
    ),
    ("CosineDecayRestarts", (0.1, 10), {}),
    ("CosineDecayRestarts", (0.1, 10), {"t_mul": 1.0, "m_mul": 0.9}),
    (
        "CosineDecayRestarts",
        (0.1, 15),
        {"t_mul": 1.5, "m_mul": 0.8, "alpha": 0.05},
    ),
]


def _spec(name, config):
    return OptimizerSpec("sgd", 1.0, schedule=ScheduleSpec(name, config))


@pytest.mark.parametrize(("name", "args", "options"), _CASES)
def test_follows_keras(name, args, options):
    schedule = getattr(keras.optimizers.schedules, name)(*args, **options)
    spec = _spec(name, schedule.get_config())
    expected = [float(schedule(np.int64(step))) for step in _STEPS]
    got = [learning_rate(spec, step) for step in _STEPS]
    assert all(isinstance(rate, float) for rate in got)
    largest = max(map(abs, expected))
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-7 * largest)
    assert len(set(got)) > 1


def test_covers_every_schedule_of_keras():
    theirs = {
        name
        for name, value in vars(keras.optimizers.schedules).items()
        if isinstance(value, type)
    }
    assert theirs - {"LearningRateSchedule"} == {case[0] for case in _CASES}


def test_options_left_out_have_keras_s_defaults():
    config = {"initial_learning_rate": 0.1, "decay_steps": 50}
    theirs = keras.optimizers.schedules.PolynomialDecay(**config)
    assert learning_rate(_spec("PolynomialDecay", config), 20) == (
        pytest.approx(float(theirs(20)), rel=1e-6)
    )


def test_without_a_schedule_the_rate_is_constant():
    spec = OptimizerSpec("sgd", 0.1)
    assert learning_rate(spec, 0) == learning_rate(spec, 10**9)
    assert learning_rate(spec, 0) == float(np.float32(0.1))


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("NoamDecay", {}, "one of ExponentialDecay.*NoamDecay"),
        (
            "CosineDecay",
            {"initial_learning_rate": 0.1, "decay_steps": 0},
            "decay_steps=0",
        ),
        ("CosineDecay", {"decay_steps": 5}, "needs initial_learning_rate"),
        (
            "InverseTimeDecay",
            {
                "initial_learning_rate": 0.1,
                "decay_steps": 5,
                "decay_rate": 0.5,
                "power": 2,
            },
            "power=2",
        ),
        (
            "PiecewiseConstantDecay",
            {"boundaries": [1], "values": [0.1]},
            "one value more",
        ),
    ],
)
def test_refuses_what_it_does_not_know(name, config, message):
    with pytest.raises(ValueError, match=message):
        learning_rate(_spec(name, config), 3)
