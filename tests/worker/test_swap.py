import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.worker import swap
from elastic_keras.worker.failures import failure
from elastic_keras.worker.lookup import Lookup
from elastic_keras.worker.model import prepare
from tests.worker.reference import dataset

layers = keras.layers
IDS = np.array([[1, 2], [3, 4], [0, 9]])


def prepared(model, threshold=1, batches=None):
    batches = batches or dataset(IDS)
    return prepare(
        model,
        None,
        None,
        None,
        sample_batch=next(iter(batches)),
        seed=0,
        threshold_bytes=threshold,
    )


def model_of(table):
    inputs = keras.Input((2,), dtype="int64")
    return keras.Model(inputs, layers.Dense(1)(layers.Flatten()(table(inputs))))


def test_swaps_from_the_threshold_on():
    small, large = layers.Embedding(9, 2), layers.Embedding(10, 2)
    inputs = keras.Input((2,), dtype="int64")
    model = keras.Model(inputs, layers.Add()([small(inputs), large(inputs)]))
    ready = prepared(model, threshold=80)
    assert [t.name for t in ready.tables] == [large.name]
    assert [s.shape for s in ready.signature.dense] == [(9, 2)]
    assert isinstance(large, layers.Embedding)


def test_frees_the_weights():
    table = layers.Embedding(1000, 8)
    model = model_of(table)
    assert any(tuple(w.shape) == (1000, 8) for w in model.weights)
    prepared(model)
    assert not any(tuple(w.shape) == (1000, 8) for w in model.weights)
    assert table.weights == []
    assert "_embeddings" not in vars(table)


def test_an_unbuilt_layer_never_allocates():
    # 3.2 TB: building it would fail.
    table = layers.Embedding(10**11, 8, name="huge")
    model = keras.Sequential([table, layers.Flatten(), layers.Dense(1)])
    ready = prepared(model)
    assert [s.name for s in ready.signature.tables] == ["huge"]
    assert model.built


def test_finds_layers_wherever_they_are():
    class Tower(layers.Layer):
        def __init__(self):
            super().__init__()
            self.table = layers.Embedding(10, 2, name="inner")

        def call(self, ids):
            return self.table(ids)

    class Lazy(layers.Layer):
        def build(self, shape):
            self.table = layers.Embedding(10, 2, name="lazy")

        def call(self, ids):
            return self.table(ids)

    class Everywhere(keras.Model):
        def __init__(self):
            super().__init__()
            self.alone = layers.Embedding(10, 2, name="alone")
            self.listed = [layers.Embedding(10, 2, name="listed")]
            self.named = {"x": [layers.Embedding(10, 2, name="named")]}
            self.tower = Tower()
            self.lazy = Lazy()
            self.sequence = keras.Sequential(
                [layers.Embedding(10, 2, name="sequence")]
            )

        def call(self, ids):
            called = [
                self.alone,
                *self.listed,
                *self.named["x"],
                self.tower,
                self.lazy,
                self.sequence,
            ]
            return sum(layer(ids) for layer in called)

    ready = prepared(Everywhere())
    assert sorted(t.name for t in ready.tables) == [
        "alone",
        "inner",
        "lazy",
        "listed",
        "named",
        "sequence",
    ]
    assert ready.model.trainable_variables == []
    lookup = Lookup(ready, dataset(IDS).element_spec)
    for ids in lookup.ids(tf.constant(IDS)):
        assert sorted(set(ids.numpy())) == [0, 1, 2, 3, 4, 9]


class Mine(layers.Embedding):
    pass


def frozen():
    layer = layers.Embedding(10, 2)
    layer.trainable = False
    return layer


def loaded():
    layer = layers.Embedding(10, 2)
    layer.build()
    layer.set_weights([np.ones((10, 2))])
    return layer


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (frozen, "frozen"),
        (loaded, "loaded or set"),
        (
            lambda: layers.Embedding(10, 2, weights=np.ones((10, 2))),
            "loaded or set",
        ),
        (lambda: Mine(10, 2), "subclass"),
        (lambda: layers.Embedding(10, 2, lora_rank=1), "LoRA"),
        (lambda: layers.Embedding(10, 2, "orthogonal"), "cannot compute"),
        (
            lambda: layers.Embedding(
                10, 2, embeddings_constraint=keras.constraints.MaxNorm(1)
            ),
            "along axis 1",
        ),
        (
            lambda: layers.Embedding(
                10,
                2,
                embeddings_regularizer=keras.regularizers.OrthogonalRegularizer(),
            ),
            "regularizer",
        ),
        (lambda: layers.Embedding(10, 2, dtype="float16"), "float16"),
        (
            lambda: layers.Embedding(
                10,
                2,
                keras.initializers.RandomNormal(
                    seed=keras.random.SeedGenerator(1)
                ),
            ),
            "loaded or set",
        ),
    ],
)
def test_leaves_what_cannot_be_a_table_and_says_so(make, reason, caplog):
    layer = make()
    with caplog.at_level(logging.INFO):
        ready = prepared(model_of(layer))
    assert ready.tables == ()
    assert not isinstance(layer, swap.TableEmbedding)
    [line] = [r.getMessage() for r in caplog.records if "not made" in r.msg]
    assert line.startswith(f"{layer.name}: ")
    assert reason in line


class Tied(keras.Model):
    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(10, 2, name="tied")

    def call(self, ids):
        return self.table(ids) @ tf.transpose(self.table.embeddings)


class Chained(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = layers.Embedding(10, 2, name="first")
        self.second = layers.Embedding(10, 2, name="second")

    def call(self, ids):
        return self.second(tf.cast(self.first(ids)[..., 0] > 0, tf.int64))


class Looped(keras.Model):
    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(10, 2, name="looped")

    def call(self, ids):
        return tf.map_fn(
            self.table, ids, fn_output_signature=tf.TensorSpec([2, 2])
        )


@pytest.mark.parametrize(
    ("model", "tables", "stays", "reason"),
    [
        (Tied, [], "tied", "reads its weights"),
        (Chained, ["first"], "second", "depend on an embedding"),
        (Looped, [], "looped", "loop or condition"),
    ],
)
def test_puts_back_what_a_model_uses_otherwise(
    model, tables, stays, reason, caplog
):
    model = model()
    with caplog.at_level(logging.INFO):
        ready = prepared(model)
    assert [s.name for s in ready.signature.tables] == tables
    [dense] = ready.signature.dense
    assert dense.shape == (10, 2)
    assert f"{stays}: this Embedding is not made a PS table" in caplog.text
    assert reason in caplog.text
    Lookup(ready, dataset(IDS).element_spec)


def test_takes_over_what_the_layer_asks_for():
    table = layers.Embedding(
        10,
        3,
        embeddings_initializer="glorot_uniform",
        embeddings_constraint=keras.constraints.UnitNorm(axis=-1),
        embeddings_regularizer="l2",
        name="mine",
    )
    ready = prepared(model_of(table))
    [spec] = ready.signature.tables
    assert spec.name == "mine"
    assert spec.dim == 3
    # The fans of the real matrix, (10, 3).
    assert spec.initializer.b == pytest.approx((6 / 13) ** 0.5)
    assert spec.constraint.name == "unit_norm"
    assert spec.constraint.axes == (1,)


def test_ids_are_read_as_keras_reads_them():
    table = layers.Embedding(10, 2, name="ten")
    batches = dataset(np.array([[-1, 0], [9, -10]]))
    ready = prepared(model_of(table), batches=batches)
    lookup = Lookup(ready, batches.element_spec)
    [(_, ids)] = lookup.map(batches)
    assert ids[0].numpy().tolist() == [9, 0, 9, 0]
    for wrong in (10, -11):
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            list(lookup.map(dataset(np.array([[wrong, 1]]))))
        # The data are the same at each try.
        told = failure(caught.value, first_step=False)
        assert (told["fatal"], told["exit_code"]) == (True, 2)
        assert told["error"].startswith("The embedding ten takes ids from 0 ")
        assert told["error"].endswith(
            f"Received: id {wrong} in layer 'ten' with input_dim=10"
        )


def test_other_errors_of_kernels_are_not_about_ids():
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tf.gather([1.0], [3])
    assert swap.outside_input_dim(caught.value) is None
    assert swap.outside_input_dim(KeyError("The embedding x takes")) is None


def test_needs_a_step_once_swapped(tmp_path):
    table = layers.Embedding(10, 2, name="ten")
    model = model_of(table)
    prepared(model)
    with pytest.raises(ConfigError, match=r"only be called in a step.*'ten'"):
        table(tf.constant(IDS))
    with pytest.raises(ConfigError, match=r"weights cannot be read.*'ten'"):
        _ = table.embeddings
    with pytest.raises(ConfigError, match=r"cannot be saved there.*'ten'"):
        model.save(tmp_path / "model.keras")
    with pytest.raises(ConfigError, match=r"cannot be saved there.*'ten'"):
        model.save_weights(tmp_path / "model.weights.h5")
    with pytest.raises(ConfigError, match="weights cannot be loaded"):
        table.load_own_variables({})


def test_comes_back_as_an_ordinary_layer(tmp_path):
    table = layers.Embedding(10, 2, name="ten")
    model = model_of(table)
    prepared(model)
    rows = np.random.default_rng(1).normal(size=(10, 2)).astype(np.float32)
    swap.restore(table, rows)
    assert type(table) is layers.Embedding
    np.testing.assert_array_equal(table(tf.constant([3, 0])), rows[[3, 0]])
    expected = model.predict(IDS, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(IDS, verbose=0), expected)
    model.compile("sgd", "mse")
    model.fit(IDS, np.ones((3, 1)), verbose=0)
    assert not np.array_equal(table.get_weights()[0], rows)
