import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.layers import Embedding
from elastic_keras.signature import (
    ConstraintSpec,
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    StateSpec,
    TableSpec,
)
from elastic_keras.worker.model import prepare

layers = keras.layers
IDS = np.array([[1, 2], [3, 4], [0, 9]])
LABELS = np.zeros((3, 1), np.float32)


def prepared(model, optimizer=None, **options):
    options = {
        "sample_batch": (IDS, LABELS),
        "seed": 7,
        "threshold_bytes": 1 << 20,
        **options,
    }
    return prepare(model, None, optimizer, None, **options)


def test_describes_a_model():
    own = keras.optimizers.Adagrad(0.25, clipnorm=1.0)
    model = keras.Sequential(
        [
            Embedding(3, "ones", name="first", optimizer=own),
            layers.Flatten(),
            layers.Dense(2, use_bias=False, kernel_constraint="non_neg"),
            layers.BatchNormalization(scale=False, name="norm"),
            layers.Dropout(0.5),
            layers.Dense(1, name="head"),
        ]
    )
    main = keras.optimizers.Adam(0.5, weight_decay=0.1)
    main.exclude_from_weight_decay(var_names=["bias", "embeddings"])
    ready = prepared(model, main)
    signature = ready.signature
    assert signature.seed == 7
    assert signature.tables == (
        TableSpec("first", 3, InitializerSpec("constant", 1.0), optimizer=1),
    )
    kernel, beta, head, bias = signature.dense
    assert kernel.shape == (6, 2)
    assert kernel.constraint == ConstraintSpec("non_neg")
    assert beta.name.endswith("norm/beta")
    assert head.weight_decay
    assert bias == DenseSpec(
        bias.name, (1,), weight_decay=False, constraint=None
    )
    assert bias.name.endswith("head/bias")
    # The seed of Dropout is no shared state.
    assert [s.name.split("/")[-1] for s in signature.states] == [
        "moving_mean",
        "moving_variance",
    ]
    assert signature.states[0] == StateSpec(signature.states[0].name, (2,))
    assert [o.name for o in signature.optimizers] == ["adam", "adagrad"]
    assert ready.optimizers == (main, own)
    assert [c.clipnorm for c in ready.clippings] == [None, 1.0]
    assert ModelSignature.from_json(signature.to_json()) == signature


def test_optimizers_that_are_alike_are_one():
    def rows(name, optimizer):
        return Embedding(2, name=name, optimizer=optimizer, combiner="sum")

    ids = keras.Input((2,), dtype="int64")
    tables = [
        rows("a", None),
        rows("b", keras.optimizers.SGD(0.5)),
        rows("c", keras.optimizers.SGD(0.25)),
        rows("d", keras.optimizers.SGD(0.25)),
        rows("e", keras.optimizers.SGD(0.25, clipnorm=1.0)),
    ]
    model = keras.Model(ids, layers.Add()([table(ids) for table in tables]))
    signature = prepared(model, keras.optimizers.SGD(0.5)).signature
    assert {t.name: t.optimizer for t in signature.tables} == {
        "a": 0,
        "b": 0,
        "c": 1,
        "d": 1,
        "e": 2,
    }


def test_names_are_unique():
    class Twice(keras.Model):
        def __init__(self):
            super().__init__()
            self.tables = [Embedding(2, name="same") for _ in range(2)]
            self.heads = [layers.Dense(1, name="head") for _ in range(2)]

        def call(self, ids):
            x = sum(tf.reduce_sum(table(ids), 1) for table in self.tables)
            return sum(head(x) for head in self.heads)

    signature = prepared(Twice()).signature
    assert [t.name for t in signature.tables] == ["same", "same_1"]
    names = [d.name for d in signature.dense]
    assert len(set(names)) == 4


def test_frozen_layers_have_no_shared_state():
    frozen = layers.BatchNormalization()
    frozen.trainable = False
    model = keras.Sequential(
        [
            Embedding(2, combiner="sum"),
            frozen,
            layers.Normalization(mean=0.0, variance=1.0),
            layers.Dense(1),
        ]
    )
    signature = prepared(model).signature
    assert signature.states == ()
    assert len(signature.dense) == 2


def test_half_precision_models_get_a_loss_scale():
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = keras.Sequential(
            [Embedding(2, combiner="sum"), layers.Dense(1)]
        )
    finally:
        keras.config.set_dtype_policy("float32")
    ready = prepared(model, keras.optimizers.SGD(0.5))
    assert ready.loss_scale.initial == 2.0**15
    wrapped = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5))
    ready = prepared(model, wrapped)
    assert ready.optimizer is wrapped.inner_optimizer
    assert ready.signature.optimizers[0].name == "sgd"


def test_preparing_changes_no_state():
    model = keras.Sequential(
        [
            Embedding(2, combiner="sum", name="t"),
            layers.BatchNormalization(),
            layers.Dropout(0.5, seed=1),
            layers.Dense(1),
        ]
    )
    model(IDS)
    before = [np.array(v) for v in model.variables]
    ready = prepared(model)
    assert len(ready.states) == 2
    for old, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(old, variable)
    assert len(model.get_layer("t")._local.ids) == 0


def test_refuses_what_is_no_model_or_optimizer():
    with pytest.raises(ConfigError, match=r"keras\.Model. Received: int"):
        prepared(3)
    model = keras.Sequential([layers.Dense(1)])
    batch = (np.ones((3, 2), np.float32), LABELS)
    with pytest.raises(ConfigError, match=r"keras.optimizers.Optimizer.* str"):
        prepared(model, "sgd", sample_batch=batch)


@pytest.mark.parametrize(
    "name", ["train_step", "test_step", "compute_loss", "compute_metrics"]
)
def test_refuses_steps_of_the_models_own(name):
    own = type(
        "Own", (keras.Model,), {name: lambda self, *args, **kwargs: None}
    )
    with pytest.raises(ConfigError, match=rf"Received: Own\.{name}"):
        prepared(own())


def test_an_exception_of_the_model_comes_out():
    class Broken(keras.Model):
        def call(self, ids):
            raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"):
        prepared(Broken())
