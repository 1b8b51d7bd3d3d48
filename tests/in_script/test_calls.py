"""Ways to call fit, evaluate and predict, beside Keras itself."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import elastic_keras as ek
from elastic_keras.in_script.ps_model import PSModel

pytestmark = pytest.mark.end_to_end

_RANDOM = np.random.default_rng(0)
_A = _RANDOM.integers(0, 20, 90)
_B = _RANDOM.integers(0, 20, 90)
_Y = ((_A + _B) % 2).astype(np.float32)[:, None]


def _one():
    keras.utils.set_random_seed(1)
    ids = keras.Input((), dtype="int64")
    rows = keras.layers.Embedding(20, 4, embeddings_initializer="zeros")(ids)
    hidden = keras.layers.Dense(4, activation="tanh")(rows)
    return keras.Model(ids, keras.layers.Dense(1)(hidden))


def _two():
    keras.utils.set_random_seed(1)
    a = keras.Input((), dtype="int64", name="a")
    b = keras.Input((), dtype="int64", name="b")
    rows = [
        keras.layers.Embedding(20, 4, embeddings_initializer="zeros")(ids)
        for ids in (a, b)
    ]
    hidden = keras.layers.Concatenate()(rows)
    hidden = keras.layers.Dense(4, activation="tanh")(hidden)
    p = keras.layers.Dense(1, activation="sigmoid", name="p")(hidden)
    return keras.Model([a, b], [p, keras.layers.Dense(1, name="q")(hidden)])


def _of_any_length():
    keras.utils.set_random_seed(1)
    ids = keras.Input((None,), dtype="int64")
    rows = keras.layers.Embedding(20, 4, embeddings_initializer="zeros")(ids)
    pooled = keras.layers.GlobalAveragePooling1D()(rows)
    hidden = keras.layers.Dense(4, activation="tanh")(pooled)
    return keras.Model(ids, keras.layers.Dense(1)(hidden))


def _ps(build):
    return PSModel(build(), embedding_threshold_bytes=1)


def _compiled(model, **options):
    model.compile(keras.optimizers.SGD(0.1), "mse", **options)
    return model


def _both(build, act):
    """Returns what `act` finds with Keras and on shards."""
    expected = act(build())
    with _ps(build) as model:
        return expected, act(model)


def test_lists_of_inputs_and_labels():
    def act(model):
        model.compile(
            keras.optimizers.SGD(0.1),
            ["binary_crossentropy", "mse"],
            metrics=[["accuracy"], ["mae"]],
        )
        history = model.fit(
            [_A, _B],
            [_Y, _Y],
            epochs=2,
            shuffle=False,
            verbose=0,
            validation_data=([_A, _B], [_Y, _Y]),
        ).history
        outputs = model.predict([_A, _B], verbose=0)
        return history, [np.ravel(part) for part in outputs]

    (kept, expected), (made, found) = _both(_two, act)
    for name in made:
        assert made[name] == pytest.approx(kept[name], rel=1e-4), name
    assert {"loss", "p_accuracy", "q_mae", "val_q_mae"} <= set(made)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_predict_comes_before_fit():
    def act(model):
        _compiled(model, metrics=["mae"])
        before = model.predict(_A, verbose=0).ravel().tolist()
        fitted = model.fit(_A, _Y, epochs=2, shuffle=False, verbose=0)
        return before + fitted.history["loss"] + fitted.history["mae"]

    expected, found = _both(_one, act)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_later_calls_may_have_other_batches():
    def act(model):
        _compiled(model)
        found = []
        for length, weights in ((3, _Y[:, 0]), (5, None), (3, None)):
            x = np.stack([_A, *[_B] * (length - 1)], 1)
            fitted = model.fit(
                x, _Y, sample_weight=weights, shuffle=False, verbose=0
            )
            found += fitted.history["loss"]
            found.append(model.evaluate(x, _Y, verbose=0))
            found += model.predict(x, verbose=0)[:5].ravel().tolist()
        return found

    expected, found = _both(_of_any_length, act)
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_the_last_examples_are_held_out():
    def act(model):
        _compiled(model)
        return model.fit(
            _A,
            _Y,
            epochs=2,
            shuffle=False,
            verbose=0,
            validation_split=0.23,
            sample_weight=np.arange(90.0) / 90,
        ).history

    expected, found = _both(_one, act)
    assert set(found) == set(expected)
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, rel=1e-4), name


class _Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = []

    def on_test_begin(self, logs=None):
        self.calls.append("begin")

    def on_test_batch_end(self, batch, logs=None):
        self.calls.append(batch)

    def on_test_end(self, logs=None):
        self.calls.append(sorted(logs))


def test_evaluate_calls_its_own_callbacks_alone():
    def act(model):
        _compiled(model)
        ours, theirs = _Recorder(), _Recorder()
        model.fit(_A, _Y, verbose=0, callbacks=[theirs])
        model.evaluate(_A, _Y, verbose=0)
        model.evaluate(_A, _Y, verbose=0, callbacks=[ours])
        return ours.calls, theirs.calls

    expected, found = _both(_one, act)
    assert found == expected == (["begin", 0, 1, 2, ["loss"]], [])


def test_progress_is_shown_unless_verbose_is_0(capsys):
    with _compiled(_ps(_one)) as model:
        model.evaluate(_A, _Y, verbose=0)
        model.predict(_A, verbose=0)
        assert capsys.readouterr().out == ""
        model.evaluate(_A, _Y, verbose=2)
        assert "3/3" in capsys.readouterr().out
        model.predict(_A)
        assert "3/3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda m: m.fit(_A[:0], _Y[:0]), "at least one example"),
        (lambda m: m.predict(_A[:0]), "at least one example"),
        (
            lambda m: m.fit(
                tf.data.Dataset.from_tensor_slices((_A, _Y)).batch(9).take(0)
            ),
            "at least one example",
        ),
        (
            lambda m: m.fit(tf.data.Dataset.from_tensor_slices((_A, _Y))),
            "call batch",
        ),
        (lambda m: m.fit(_A), "Labels are needed"),
        (lambda m: m.fit(3, _Y), "Received: x of type int"),
        (lambda m: m.fit(_A, _Y, class_weight={0: 2.0}), "sample_weight"),
        (lambda m: m.fit(_A, _Y, steps_per_epoch=3), "take"),
        (lambda m: m.fit(_A, _Y, validation_split=1.0), "both sides"),
        (
            lambda m: m.fit(
                tf.data.Dataset.from_tensors((_A, _Y)), validation_split=0.1
            ),
            "give validation_data",
        ),
        (lambda m: m.predict(_A, verbose=7), "Received: verbose=7"),
        (lambda m: _compiled(m, weighted_metrics=["mae"]), "metrics="),
    ],
)
def test_wrong_use_is_told(act, words):
    model = _compiled(_ps(_one))
    with pytest.raises(ek.ConfigError, match=words), model:
        act(model)
