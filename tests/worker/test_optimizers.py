import keras
import numpy as np
import pytest

from elastic_keras.config import ConfigError
from elastic_keras.signature import OptimizerSpec, ScheduleSpec
from elastic_keras.worker.optimizers import (
    Clipping,
    LossScale,
    clipping,
    decays,
    decays_name,
    loss_scale,
    optimizer_spec,
    unwrap,
)

optimizers = keras.optimizers

# Every algorithm with options other than Keras's defaults.
EVERY = {
    "sgd": optimizers.SGD(0.5, momentum=0.9, nesterov=True),
    "rmsprop": optimizers.RMSprop(
        0.5, rho=0.8, momentum=0.1, epsilon=1e-3, centered=True
    ),
    "adagrad": optimizers.Adagrad(
        0.5, initial_accumulator_value=0.3, epsilon=1e-3
    ),
    "adadelta": optimizers.Adadelta(0.5, rho=0.8, epsilon=1e-3),
    "adam": optimizers.Adam(
        0.5, beta_1=0.8, beta_2=0.9, epsilon=1e-3, amsgrad=True
    ),
    "adamw": optimizers.AdamW(
        0.5, beta_1=0.8, beta_2=0.9, epsilon=1e-3, amsgrad=True
    ),
    "adamax": optimizers.Adamax(0.5, beta_1=0.8, beta_2=0.9, epsilon=1e-3),
    "nadam": optimizers.Nadam(0.5, beta_1=0.8, beta_2=0.9, epsilon=1e-3),
    "ftrl": optimizers.Ftrl(
        0.5,
        learning_rate_power=-0.4,
        initial_accumulator_value=0.3,
        l1_regularization_strength=0.01,
        l2_regularization_strength=0.02,
        l2_shrinkage_regularization_strength=0.03,
        beta=0.1,
    ),
    "lion": optimizers.Lion(0.5, beta_1=0.8, beta_2=0.9),
}


@pytest.mark.parametrize("name", EVERY)
def test_holds_every_option_of_every_algorithm(name):
    optimizer = EVERY[name]
    spec = optimizer_spec(optimizer)
    assert spec.name == name
    assert spec.learning_rate == 0.5
    # What Keras saves, less what all optimizers have, is the algorithm's.
    common = set(optimizers.Optimizer(0.1).get_config())
    own = {
        key: float(value)
        for key, value in optimizer.get_config().items()
        if key not in common
    }
    assert spec.hyper == own
    assert spec.weight_decay == (0.004 if name == "adamw" else None)


def test_holds_weight_decay_and_averages():
    spec = optimizer_spec(
        optimizers.Adam(
            0.1,
            weight_decay=0.02,
            use_ema=True,
            ema_momentum=0.9,
            ema_overwrite_frequency=7,
        )
    )
    assert spec == OptimizerSpec(
        name="adam",
        # float32, as Keras holds it.
        learning_rate=float(np.float32(0.1)),
        hyper={
            "beta_1": 0.9,
            "beta_2": 0.999,
            "epsilon": 1e-7,
            "amsgrad": 0.0,
        },
        weight_decay=0.02,
        use_ema=True,
        ema_momentum=0.9,
        ema_overwrite_frequency=7,
    )


def test_holds_a_schedule_and_its_first_rate():
    schedule = optimizers.schedules.ExponentialDecay(0.5, 10, 0.9, True)
    spec = optimizer_spec(optimizers.SGD(schedule))
    assert spec.learning_rate == 0.5
    assert spec.schedule == ScheduleSpec(
        "ExponentialDecay", schedule.get_config()
    )


def test_excludes_variables_from_weight_decay():
    kernel = keras.Variable(np.ones(2), name="kernel")
    bias = keras.Variable(np.ones(2), name="bias")
    optimizer = optimizers.Adam(0.1, weight_decay=0.1)
    assert decays(optimizer, bias)
    optimizer.exclude_from_weight_decay(var_list=[kernel], var_names=["bi.s"])
    assert not decays(optimizer, kernel)
    assert not decays(optimizer, bias)
    assert decays(optimizer, keras.Variable(np.ones(2), name="gamma"))
    assert decays_name(optimizer, "ids/embeddings")
    optimizer.exclude_from_weight_decay(var_names=["embeddings"])
    assert not decays_name(optimizer, "ids/embeddings")


def test_clipping():
    assert clipping(optimizers.SGD(0.1)) == Clipping()
    assert clipping(optimizers.SGD(0.1, clipnorm=2)) == Clipping(clipnorm=2.0)
    assert clipping(optimizers.SGD(0.1, clipvalue=2)) == Clipping(clipvalue=2)
    assert clipping(optimizers.SGD(0.1, global_clipnorm=3)) == Clipping(
        global_clipnorm=3.0
    )
    # Keras does not clip by zero.
    assert clipping(optimizers.SGD(0.1, clipnorm=0.0)) == Clipping()


def test_loss_scales():
    model = keras.Sequential([keras.layers.Dense(1)])
    half = keras.Sequential([keras.layers.Dense(1)])
    half.dtype_policy = keras.DTypePolicy("mixed_float16")
    inner = optimizers.SGD(0.1)
    wrapped = optimizers.LossScaleOptimizer(
        inner, initial_scale=8.0, dynamic_growth_steps=3
    )
    assert loss_scale(inner, model) is None
    assert loss_scale(None, model) is None
    assert loss_scale(inner, half) == LossScale(2.0**15, 2000)
    assert loss_scale(wrapped, model) == LossScale(8.0, 3)
    fixed = optimizers.SGD(0.1, loss_scale_factor=4.0)
    assert loss_scale(fixed, model) == LossScale(4.0, None)
    assert unwrap(wrapped) is inner
    assert unwrap(inner) is inner


class SGD(optimizers.SGD):
    pass


class Halving(optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 0.5

    def get_config(self):
        return {}


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (SGD(0.1), "SGD, RMSprop, Adagrad.*Received: optimizer=SGD"),
        (optimizers.Adafactor(0.1), "Lion. Received: optimizer=Adafactor"),
        (
            optimizers.SGD(0.1, gradient_accumulation_steps=2),
            "--grads_to_wait.*gradient_accumulation_steps=2",
        ),
        (optimizers.SGD(Halving()), "ExponentialDecay.*Halving"),
        (
            optimizers.SGD(lambda: 0.1),
            "schedules.*Received: learning_rate=function",
        ),
    ],
)
def test_refuses_what_shards_do_not_run(optimizer, message):
    with pytest.raises(ConfigError, match=message):
        optimizer_spec(optimizer)
