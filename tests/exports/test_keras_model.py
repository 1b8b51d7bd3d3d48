"""Keras files, loaded where elastic_keras is not installed."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.exports.keras_model import write_keras
from tests.exports import cases
from tests.exports.stand_ins import restored, without_elastic_keras

PREDICT = """
import keras
import tensorflow as tf
model = keras.saving.load_model(path)
for name in [n for n in given if n.endswith("_row_splits")]:
    flat = name.removesuffix("_row_splits")
    given[flat] = tf.RaggedTensor.from_row_splits(
        given[flat], given.pop(name))
features = {k: tf.constant(v) if isinstance(v, np.ndarray) else v
            for k, v in given.items()}
if order:
    features = [features[name] for name in order.split()]
if "inputs" in given:
    features = features["inputs"]
result["outputs"] = model(features, training=False).numpy()
"""
OF_OURS = ("sparse", "subclassed")


@pytest.mark.parametrize(
    "name", [name for name in cases.NAMES if name not in OF_OURS]
)
def test_loads_with_keras_alone(name, tmp_path):
    trained = cases.CASES[name].train(tmp_path)
    told = write_keras(restored(trained), tmp_path, limit_mb=1)
    assert (told.written, told.notes, told.needs) == (True, [], [])
    is_tuple = isinstance(trained.features, tuple)
    result = without_elastic_keras(
        PREDICT,
        folder=str(tmp_path),
        path=str(tmp_path / "model.keras"),
        order="user words" if is_tuple else "",
        **cases.named(trained.features),
    )
    np.testing.assert_allclose(
        result["outputs"], trained.predictions, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("name", OF_OURS)
def test_keeps_our_layers_where_it_must(name, tmp_path):
    trained = cases.CASES[name].train(tmp_path)
    ready = restored(trained)
    told = write_keras(ready, tmp_path, limit_mb=1)
    assert told.written
    assert "where elastic_keras is installed" in told.notes[0]
    kind = type(ready.prepared.model)
    own = {kind.__name__: kind} if name == "subclassed" else {}
    model = keras.saving.load_model(tmp_path / "model.keras", own)
    outputs = model(trained.features, training=False)
    np.testing.assert_allclose(outputs, trained.predictions, rtol=0, atol=1e-6)


def test_masks_stay(tmp_path):
    trained = cases.CASES["masked"].train(tmp_path)
    write_keras(restored(trained), tmp_path, limit_mb=1)
    model = keras.saving.load_model(tmp_path / "model.keras")
    add = next(x for x in model.layers if isinstance(x, keras.layers.Add))
    rows = keras.Model(model.inputs, add.output)(trained.features)
    np.testing.assert_array_equal(rows._keras_mask, trained.features != 0)


def test_is_left_out_where_tables_are_too_large(tmp_path):
    trained = cases.CASES["subclassed"].train(tmp_path)
    told = write_keras(restored(trained), tmp_path, limit_mb=0)
    assert not told.written
    assert "--keras_limit_mb=0" in told.notes[0]
    assert not (tmp_path / "model.keras").exists()


def test_trains_on(tmp_path):
    trained = cases.CASES["deepfm"].train(tmp_path)
    write_keras(restored(trained), tmp_path, limit_mb=1)
    model = keras.saving.load_model(tmp_path / "model.keras")
    model.compile("adam", "mse")
    labels = tf.zeros_like(trained.predictions)
    before = model.evaluate(trained.features, labels, verbose=0)
    model.fit(trained.features, labels, epochs=3, verbose=0)
    assert model.evaluate(trained.features, labels, verbose=0) < before


MIXED = """
    def custom_model():
        words = keras.Input((4,), dtype="int64", name="words")
        x = ek.layers.Embedding(
            4, "normal", mask_zero=True, name="rows", dtype="mixed_float16"
        )(words)
        x = keras.layers.GlobalAveragePooling1D()(x)
        return keras.Model({"words": words}, keras.layers.Dense(1)(x))
"""


def test_half_precision(tmp_path):
    words = tf.constant([[1, 2, 0, 0], [70, 3, 99, 0]], tf.int64)
    trained = cases.Case(MIXED, {"words": words}).train(tmp_path)
    write_keras(restored(trained), tmp_path, limit_mb=1)
    model = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        model({"words": words}), trained.predictions, rtol=0, atol=1e-6
    )


def test_layers_inside_a_custom_layer_stay(tmp_path):
    module = """
        @keras.saving.register_keras_serializable(package="mine")
        class Bag(keras.layers.Layer):
            def __init__(self, **kwargs):
                super().__init__(**kwargs)
                self.rows = ek.layers.Embedding(4, "normal", name="rows")

            def call(self, ids):
                return keras.ops.sum(self.rows(ids), axis=1)

        def custom_model():
            ids = keras.Input((3,), dtype="int64", name="ids")
            one = keras.Input((), dtype="int64", name="one")
            x = Bag()(ids) + ek.layers.Embedding(4, "ones", name="own")(one)
            return keras.Model(
                {"ids": ids, "one": one}, keras.layers.Dense(1)(x)
            )
    """
    features = {
        "ids": tf.constant([[1, 2, 99]], tf.int64),
        "one": tf.constant([5], tf.int64),
    }
    trained = cases.Case(module, features).train(tmp_path)
    told = write_keras(restored(trained), tmp_path, limit_mb=1)
    assert told.notes == [
        "model.keras loads where elastic_keras is installed only, for rows: "
        "the module's own code calls them.",
        "model.keras needs classes to be loaded: mine>Bag.",
    ]
    model = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(
        model(features), trained.predictions, rtol=0, atol=1e-6
    )
