"""A job's step beside the step of Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.layers import Embedding
from tests.worker.reference import JobSide, dataset, plain_step
from tests.worker.step_cases import (
    CASES,
    IDS,
    LABELS,
    NUMBERS,
    WEIGHTS,
    both,
    head,
    without_tables,
)

layers = keras.layers
RNG = np.random.default_rng(1)


def assert_same_step(plain, job, loss, rtol=2e-5, atol=1e-7):
    batch, ids, rows = next(iter(job))
    value, tables, dense, states = plain_step(plain, loss, batch)
    result, gradients = job.train(batch, ids, rows)
    np.testing.assert_allclose(result.loss, value, rtol=rtol)
    np.testing.assert_allclose(result.dense, dense, rtol=rtol, atol=atol)
    np.testing.assert_allclose(result.states, states, rtol=1e-4, atol=1e-6)
    assert set(gradients) == set(tables)
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, tables[name], rtol=rtol, atol=atol)
    assert bool(result.finite)
    return result


@pytest.mark.parametrize(
    ("name", "weighted"),
    [*((name, False) for name in CASES), ("masked", True), ("nested", True)],
)
def test_a_step_is_the_step_of_keras(name, weighted):
    build, features = CASES[name]
    parts = (features, LABELS, WEIGHTS) if weighted else (features, LABELS)
    loss = keras.losses.MeanSquaredError()
    plain, job = both(build, dataset(parts), loss=loss)
    if name != "without_tables":
        assert job.prepared.tables
    result = assert_same_step(plain, job, loss)
    assert result.dense.shape == job.steps.get_dense().shape
    assert int(result.examples) == 4


def test_ragged_and_sparse_bags_get_the_gradients_of_their_rows():
    bags = [[1, 2, 2], [], [7, 5], [2]]
    ragged = tf.ragged.constant(bags, tf.int64)
    matrix = RNG.normal(size=(10, 4)).astype(np.float32)
    targets = LABELS[:4]
    counts = np.zeros((4, 10), np.float32)
    for row, ids in enumerate(bags):
        for i in ids:
            counts[row, i] += 1
    means = counts / np.maximum(counts.sum(1, keepdims=True), 1)

    def build(sparse):
        ids = keras.Input(
            (None,), dtype="int64", ragged=not sparse, sparse=sparse
        )
        x = Embedding(4, combiner="mean", name="bag")(ids)
        return keras.Model(ids, layers.Dense(1, name="head")(x))

    for features in (ragged, ragged.to_sparse()):
        model = build(isinstance(features, tf.SparseTensor))
        batches = dataset((features, targets))
        job = JobSide(model, batches, {"bag": matrix})
        batch, ids, rows = next(iter(job))
        result, gradients = job.train(batch, ids, rows)
        kernel = tf.constant(model.get_layer("head").kernel.value)
        table = tf.Variable(matrix)
        with tf.GradientTape() as tape:
            prediction = tf.constant(means) @ table @ kernel
            loss = tf.reduce_mean(tf.square(prediction - targets))
        np.testing.assert_allclose(result.loss, loss, rtol=1e-5)
        np.testing.assert_allclose(
            gradients["bag"], tape.gradient(loss, table), rtol=1e-5, atol=1e-7
        )
        assert len(ids.unique[0]) == 4


def test_a_regularizer_of_a_table_counts_each_row_of_a_batch_once():
    layer = Embedding(
        2, name="ids", embeddings_regularizer=keras.regularizers.L2(0.5)
    )
    model = keras.Sequential([layer, layers.Flatten(), layers.Dense(1)])
    matrix = RNG.normal(size=(5, 2)).astype(np.float32)
    ids = np.array([[1, 1], [3, 1]])
    job = JobSide(
        model,
        dataset((ids, LABELS[:2])),
        {"ids": matrix},
        loss=lambda labels, predictions: tf.reduce_sum(predictions) * 0.0,
    )
    result, gradients = job.train(*next(iter(job)))
    used = matrix[[1, 3]]
    np.testing.assert_allclose(
        result.loss, 0.5 * np.square(used).sum(), rtol=1e-6
    )
    expected = np.zeros_like(matrix)
    expected[[1, 3]] = used
    np.testing.assert_allclose(gradients["ids"], expected, rtol=1e-6)


def test_mixed_precision_is_close_to_keras_and_repeats_overflows():
    keras.utils.set_random_seed(1)

    def build():
        ids = keras.Input((3,), dtype="int64")
        table = layers.Embedding(20, 4, name="a", dtype="mixed_float16")
        x = layers.Flatten(dtype="mixed_float16")(table(ids))
        x = layers.Dense(4, dtype="mixed_float16")(x)
        return keras.Model(ids, layers.Dense(1, dtype="float32")(x))

    loss = keras.losses.MeanSquaredError()
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(), initial_scale=2.0**40
    )
    plain, job = both(
        build, dataset((IDS, LABELS)), loss=loss, optimizer=optimizer
    )
    assert_same_step(plain, job, loss, rtol=2e-2, atol=2e-4)
    scale = job.steps._scaling._scale.numpy()
    assert 1.0 <= scale < 2.0**40
    # The batch was computed several times and counted once.
    assert job.steps.train_metrics.state()["loss"][1] == 4.0


def test_a_dynamic_scale_grows_after_finite_steps():
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(), initial_scale=4.0, dynamic_growth_steps=2
    )
    job = JobSide(
        without_tables(), dataset((NUMBERS, LABELS)), optimizer=optimizer
    )
    part = next(iter(job))
    scales = []
    for _ in range(5):
        job.train(*part)
        scales.append(float(job.steps._scaling._scale.numpy()))
    assert scales == [4, 8, 8, 16, 16]


@pytest.mark.parametrize(
    "options",
    [{"clipnorm": 0.01}, {"global_clipnorm": 0.02}, {"clipvalue": 0.003}],
)
def test_clips_as_keras_does(options):
    loss = keras.losses.MeanSquaredError()
    build, features = CASES["functional"]
    optimizer = keras.optimizers.SGD(1.0, **options)
    plain, job = both(
        build, dataset((features, LABELS)), loss=loss, optimizer=optimizer
    )
    batch, ids, rows = next(iter(job))
    result, gradients = job.train(batch, ids, rows)
    with tf.GradientTape() as tape:
        value = loss(batch[1], plain(batch[0], training=True))
    variables = plain.trainable_variables
    theirs = optimizer._clip_gradients(
        [
            tf.convert_to_tensor(g)
            for g in tape.gradient(value, [v.value for v in variables])
        ]
    )
    dense = []
    for variable, gradient in zip(variables, theirs, strict=True):
        if variable.path.endswith("/embeddings"):
            name = variable.path.split("/")[-2]
            np.testing.assert_allclose(
                gradients[name], gradient, rtol=1e-5, atol=1e-7
            )
        else:
            dense.append(np.ravel(gradient))
    np.testing.assert_allclose(
        result.dense, np.concatenate(dense), rtol=1e-5, atol=1e-7
    )
    assert np.abs(result.dense).max() < 0.02


def test_global_norms_are_taken_per_optimizer():
    ids = keras.Input((3,), dtype="int64")
    own = keras.optimizers.SGD(1.0, global_clipnorm=0.001)
    x = Embedding(4, name="own", optimizer=own)(ids)
    model = keras.Model(ids, head(x))
    matrix = RNG.normal(size=(20, 4)).astype(np.float32)
    job = JobSide(model, dataset((IDS, LABELS)), {"own": matrix})
    result, gradients = job.train(*next(iter(job)))
    assert np.linalg.norm(gradients["own"]) == pytest.approx(0.001, rel=1e-4)
    assert np.linalg.norm(result.dense) > 0.1


def test_predictions_and_evaluation_are_those_of_keras():
    build, features = CASES["normalized"]
    loss = keras.losses.MeanSquaredError()
    batches = dataset((features, LABELS), 3)
    plain, job = both(
        build,
        batches,
        loss=loss,
        metrics=lambda: {"mae": keras.metrics.MeanAbsoluteError()},
        mode="evaluate",
    )
    plain.compile(loss=loss, metrics=[keras.metrics.MeanAbsoluteError("mae")])
    job.steps.expect("predict", batches.element_spec)
    predicted = []
    for batch, ids, rows in job:
        job.steps.evaluate(batch, rows, ids.inverse)
        predicted.append(job.steps.predict(batch, rows, ids.inverse).numpy())
    np.testing.assert_allclose(
        np.concatenate(predicted),
        plain.predict(features, verbose=0),
        rtol=1e-5,
        atol=1e-6,
    )
    theirs = plain.evaluate(
        features, LABELS, verbose=0, return_dict=True, batch_size=3
    )
    ours = job.steps.evaluation_metrics.result()
    assert ours == pytest.approx(theirs, rel=1e-5)
    # Training has metrics of its own.
    assert job.steps.train_metrics.state()["loss"][1] == 0


def test_nested_outputs_and_labels():
    def build():
        ids = keras.Input((3,), dtype="int64", name="ids")
        x = layers.Flatten()(layers.Embedding(20, 4, name="a")(ids))
        return keras.Model(
            {"ids": ids},
            {
                "click": layers.Dense(1, name="click")(x),
                "price": layers.Dense(2, name="price")(x),
            },
        )

    def loss(labels, predictions):
        click = tf.square(predictions["click"] - labels["click"])
        price = tf.abs(predictions["price"] - labels["price"])
        return tf.reduce_mean(click) + 2.0 * tf.reduce_mean(price)

    prices = RNG.normal(size=(8, 2)).astype(np.float32)
    batches = dataset(({"ids": IDS}, {"click": LABELS, "price": prices}))
    plain, job = both(
        build,
        batches,
        loss=loss,
        metrics=lambda: {"price": {"mae": keras.metrics.MeanAbsoluteError()}},
    )
    assert_same_step(plain, job, lambda y, p, _: loss(y, p))
    batch = next(iter(batches))
    expected = np.abs(batch[1]["price"] - plain(batch[0])["price"]).mean()
    result = job.steps.train_metrics.result()
    assert result["price_mae"] == pytest.approx(float(expected), rel=1e-4)
