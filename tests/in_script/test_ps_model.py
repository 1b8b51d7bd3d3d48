"""Keras models trained through real shards, beside Keras itself."""

import json

import keras
import numpy as np
import psutil
import pytest
import tensorflow as tf

import elastic_keras as ek
from elastic_keras.in_script.ps_model import PSModel

pytestmark = pytest.mark.end_to_end

_RANDOM = np.random.default_rng(0)
_IDS = _RANDOM.integers(0, 50, 300)
_X = _RANDOM.normal(size=(300, 3)).astype(np.float32)
_TASTE = _RANDOM.normal(size=50)
_Y = (_TASTE[_IDS] + _X[:, 0] > 0).astype(np.float32)[:, None]
_FEATURES = {"id": _IDS, "x": _X}
_HELD_OUT = ({"id": _IDS[:64], "x": _X[:64]}, _Y[:64])


def _model(embedding=None):
    keras.utils.set_random_seed(1)
    ids = keras.Input((), dtype="int64", name="id")
    x = keras.Input((3,), name="x")
    embedding = embedding or keras.layers.Embedding(
        50, 4, embeddings_initializer="zeros", name="taste"
    )
    hidden = keras.layers.Concatenate()([embedding(ids), x])
    hidden = keras.layers.Dense(8, activation="relu")(hidden)
    output = keras.layers.Dense(1, activation="sigmoid")(hidden)
    return keras.Model({"id": ids, "x": x}, output)


def _ps(model=None, **options):
    return PSModel(model or _model(), embedding_threshold_bytes=1, **options)


def _compiled(model, optimizer=None, metrics=("accuracy",)):
    model.compile(
        optimizer=optimizer or keras.optimizers.Adagrad(0.1),
        loss="binary_crossentropy",
        metrics=[*metrics, keras.metrics.AUC(name="auc")],
    )
    return model


def _fit(model, **options):
    return model.fit(
        _FEATURES, _Y, batch_size=32, shuffle=False, verbose=0, **options
    )


def _shards_of_this_process():
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if "elastic_keras.ps.main" in child.cmdline()
    ]


def test_the_same_numbers_as_keras():
    plain = _compiled(_model())
    expected = _fit(plain, epochs=3, validation_data=_HELD_OUT).history
    with _compiled(_ps(num_ps=2)) as model:
        found = _fit(model, epochs=3, validation_data=_HELD_OUT).history
        assert set(found) == set(expected)
        for name, values in expected.items():
            assert found[name] == pytest.approx(values, rel=1e-4), name
        evaluated = model.evaluate(*_HELD_OUT, return_dict=True)
        assert evaluated["auc"] == pytest.approx(expected["val_auc"][-1])
        listed = model.evaluate(*_HELD_OUT)
        assert listed == pytest.approx(list(evaluated.values()))
        outputs = model.predict(_FEATURES)
        np.testing.assert_allclose(
            outputs, plain.predict(_FEATURES, verbose=0), atol=1e-4
        )


def test_the_model_comes_back_an_ordinary_one(tmp_path):
    model = _compiled(_ps())
    _fit(model, epochs=1)
    outputs = model.predict(_FEATURES)
    assert len(_shards_of_this_process()) == 1
    plain = model.to_keras()
    assert _shards_of_this_process() == []
    assert type(plain.get_layer("taste")) is keras.layers.Embedding
    np.testing.assert_array_equal(plain.predict(_FEATURES, verbose=0), outputs)
    plain.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(_FEATURES, verbose=0), outputs)
    # Compiled, and ready to be trained on.
    assert set(plain.evaluate(*_HELD_OUT, verbose=0, return_dict=True)) == {
        "loss",
        "accuracy",
        "auc",
    }
    plain.fit(*_HELD_OUT, verbose=0)


def test_a_second_fit_goes_on():
    with _compiled(_ps()) as twice, _compiled(_ps()) as once:
        first = _fit(twice, epochs=1).history["loss"]
        second = _fit(twice, epochs=2, initial_epoch=1).history["loss"]
        whole = _fit(once, epochs=2).history["loss"]
    assert first + second == pytest.approx(whole, rel=1e-5)


def test_an_embedding_without_a_size():
    layer = ek.layers.Embedding(4, embeddings_initializer="zeros", name="any")
    model = _compiled(PSModel(_model(layer)))
    history = _fit(model, epochs=2).history
    expected = _fit(_compiled(_model()), epochs=2).history
    assert history["loss"] == pytest.approx(expected["loss"], rel=1e-4)
    outputs = model.predict(_FEATURES)
    plain = model.to_keras()
    np.testing.assert_array_equal(plain.predict(_FEATURES, verbose=0), outputs)


def test_a_dataset_and_a_model_without_any_table():
    def build():
        keras.utils.set_random_seed(2)
        return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])

    dataset = tf.data.Dataset.from_tensor_slices((_X, _Y)).batch(32)
    histories = []
    for model in (build(), PSModel(build())):
        model.compile(optimizer="adam", loss="mse", metrics=["mae"])
        fitted = model.fit(
            dataset, epochs=2, verbose=0, validation_data=dataset
        )
        histories.append(fitted.history)
    expected, found = histories
    assert set(found) == set(expected)
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, rel=1e-5), name
    model.close()


class _Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = []

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("epoch", epoch, sorted(logs)))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("batch", batch, sorted(logs)))


def test_callbacks_as_in_keras():
    calls = []
    for model in (_compiled(_model()), _compiled(_ps())):
        recorder = _Recorder()
        rates = keras.callbacks.LearningRateScheduler(
            lambda epoch, rate: 0.1 / (epoch + 1)
        )
        stop = keras.callbacks.EarlyStopping("val_loss", patience=0)
        history = _fit(
            model,
            epochs=4,
            validation_data=_HELD_OUT,
            callbacks=[recorder, rates, stop],
        ).history
        calls.append((recorder.calls, history))
    (expected, kept), (found, made) = calls
    assert found == expected
    assert set(made) == set(kept)
    for name, values in kept.items():
        assert made[name] == pytest.approx(values, rel=1e-3), name
    model.close()


def test_training_may_stop_within_an_epoch():
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = batch == 2

    with _compiled(_ps()) as model:
        history = _fit(model, epochs=3, callbacks=[Stop()])
        assert history.epoch == [0]
        # And goes on with the next fit.
        assert _fit(model, epochs=1).epoch == [0]


def test_progress_is_shown(capsys):
    with _compiled(_ps()) as model:
        model.fit(_FEATURES, _Y, batch_size=100, epochs=2, verbose=2)
    out = capsys.readouterr().out
    assert "Epoch 2/2" in out
    assert "auc:" in out


def test_an_exception_of_the_script_is_raised():
    def loss(labels, predictions):
        raise KeyError("mine")

    model = _ps()
    model.compile(optimizer="sgd", loss=loss)
    with pytest.raises(KeyError, match="mine"), model:
        _fit(model)
    assert _shards_of_this_process() == []


def test_a_gradient_that_is_no_number_is_said():
    model = _ps()
    model.compile(optimizer="sgd", loss=lambda y, p: tf.sqrt(p - 2.0))
    with pytest.raises(FloatingPointError, match="NaN or Inf"), model:
        _fit(model)


def test_a_batch_that_is_no_number_spoils_no_later_fit():
    spoilt = np.where(np.arange(300)[:, None] == 7, np.nan, _Y)
    with _compiled(_ps(num_ps=2)) as model:
        with pytest.raises(FloatingPointError, match="1 batches had"):
            model.fit(_FEATURES, spoilt, verbose=0, shuffle=False)
        assert np.isfinite(_fit(model).history["loss"]).all()


def _trained_twice_with_averages(model):
    """Returns a model's losses and outputs after each of two fits."""
    model.compile(
        keras.optimizers.SGD(0.5, use_ema=True, ema_momentum=0.9),
        "binary_crossentropy",
    )
    found = []
    for _ in range(2):
        found += _fit(model, epochs=2).history["loss"]
        found.append(model.evaluate(*_HELD_OUT))
        found += model.predict(_HELD_OUT[0])[:9].ravel().tolist()
    return found


def test_averages_are_in_place_after_each_fit_as_in_keras():
    expected = _trained_twice_with_averages(_model())
    with PSModel(_model()) as model:
        found = _trained_twice_with_averages(model)
    assert found == pytest.approx(expected, rel=1e-4)


def test_averages_of_rows_are_in_place_after_a_fit():
    model = _ps(num_ps=2)
    found = _trained_twice_with_averages(model)
    outputs = model.to_keras().predict(_HELD_OUT[0], verbose=0)
    assert found[-9:] == outputs[:9].ravel().tolist()


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: PSModel("model"), "Received: model of type str"),
        (lambda: PSModel(_model(), num_ps=0), "Received: num_ps=0"),
        (lambda: _fit(_ps()), r"Call compile\(optimizer, loss\) before fit"),
        (
            lambda: _compiled(_ps()).fit(_X, _Y[:9]),
            r"Received: \[9, 300\] of them",
        ),
        (
            lambda: _compiled(_ps()).fit(
                tf.data.Dataset.from_tensors((_X, _Y)).repeat()
            ),
            "has no end",
        ),
        (
            lambda: _compiled(_ps()).fit(
                tf.data.Dataset.from_tensors((_X, _Y)), _Y
            ),
            "Received: y beside a tf.data.Dataset",
        ),
        (
            lambda: _fit(_compiled(_ps()), validation_data=3),
            "validation_data is a dataset",
        ),
        (
            lambda: _compiled(_ps(), metrics=("auc",)).fit(_FEATURES, _Y),
            "Received: 'auc' twice",
        ),
    ],
)
def test_wrong_use_is_told(act, words):
    with pytest.raises(ek.ConfigError, match=words):
        act()
    assert _shards_of_this_process() == []


def test_names_of_metrics_by_output():
    inputs = keras.Input((3,), name="x")
    outputs = {
        "a": keras.layers.Dense(1, activation="sigmoid", name="a")(inputs),
        "b": keras.layers.Dense(2, name="b")(inputs),
    }
    labels = {"a": _Y, "b": np.concatenate([_Y, 1 - _Y], 1)}
    model = PSModel(keras.Model(inputs, outputs))
    model.compile(
        optimizer="sgd",
        loss={"a": "binary_crossentropy", "b": "mse"},
        metrics={"a": ["accuracy"], "b": ["mae"]},
    )
    with model:
        history = model.fit(_X, labels, verbose=0).history
    assert set(history) == {"loss", "a_accuracy", "b_mae"}
    assert json.dumps(history)
