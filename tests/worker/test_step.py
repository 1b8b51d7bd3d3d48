import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.layers import Embedding
from tests.worker.reference import JobSide, dataset, matrices, plain_step

layers = keras.layers
RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 20, (8, 3))
OTHER = RNG.integers(0, 30, (8, 2))
NUMBERS = RNG.normal(size=(8, 2)).astype(np.float32)
LABELS = RNG.normal(size=(8, 1)).astype(np.float32)
WEIGHTS = RNG.uniform(0.5, 2, (8,)).astype(np.float32)


def head(x):
    return layers.Dense(1, name="head")(layers.Flatten()(x))


def functional():
    ids = keras.Input((3,), dtype="int64", name="ids")
    other = keras.Input((2,), dtype="int64", name="other")
    numbers = keras.Input((2,), name="numbers")
    parts = [
        layers.Flatten()(layers.Embedding(20, 4, name="a")(ids)),
        layers.Flatten()(layers.Embedding(30, 2, name="b")(other)),
        numbers,
    ]
    x = layers.Dense(5, "tanh")(layers.Concatenate()(parts))
    return keras.Model(
        {"ids": ids, "other": other, "numbers": numbers}, head(x)
    )


def sequential():
    return keras.Sequential(
        [
            layers.Embedding(20, 4, name="a"),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.tables = [layers.Embedding(20, 4, name="a")]
        self.named = {"other": layers.Embedding(30, 4, name="b")}
        self.head = layers.Dense(1)

    def call(self, features):
        x = tf.reduce_mean(self.tables[0](features["ids"]), axis=1)
        y = tf.reduce_sum(self.named["other"](features["other"]), axis=1)
        return self.head(x * y)


def shared_twice():
    ids = keras.Input((3,), dtype="int64", name="ids")
    other = keras.Input((2,), dtype="int64", name="other")
    shared = layers.Embedding(60, 4, name="a")
    parts = [shared(ids), shared(other), shared(ids + 30)]
    return keras.Model(
        {"ids": ids, "other": other}, head(layers.Concatenate(axis=1)(parts))
    )


def nested():
    inner_ids = keras.Input((3,), dtype="int64")
    tower = keras.Model(
        inner_ids,
        layers.Dense(4)(
            layers.Flatten()(layers.Embedding(20, 4, name="a")(inner_ids))
        ),
        name="tower",
    )
    ids = keras.Input((3,), dtype="int64")
    return keras.Model(ids, head(tower(ids)))


def normalized():
    ids = keras.Input((3,), dtype="int64")
    x = layers.Flatten()(layers.Embedding(20, 4, name="a")(ids))
    x = layers.Dropout(0.4, seed=3)(layers.BatchNormalization()(x))
    return keras.Model(ids, head(x))


def regularized():
    ids = keras.Input((3,), dtype="int64")
    x = layers.Flatten()(layers.Embedding(20, 4, name="a")(ids))
    x = layers.Dense(
        3,
        kernel_regularizer=keras.regularizers.L2(0.1),
        activity_regularizer=keras.regularizers.L1(0.01),
    )(x)
    return keras.Model(ids, head(x))


class AddsLoss(keras.Model):
    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(20, 4, name="a")
        self.head = layers.Dense(1)

    def call(self, ids):
        x = tf.reduce_mean(self.table(ids), axis=1)
        self.add_loss(0.3 * tf.reduce_mean(tf.square(x)))
        return self.head(x)


def masked():
    ids = keras.Input((3,), dtype="int64")
    x = layers.Embedding(20, 4, mask_zero=True, name="a")(ids)
    return keras.Model(ids, layers.Dense(1)(layers.LSTM(3)(x)))


def without_tables():
    return keras.Sequential([layers.Dense(3, "relu"), layers.Dense(1)])


IDS_OTHER = {"ids": IDS, "other": OTHER}
CASES = {
    "functional": (functional, {**IDS_OTHER, "numbers": NUMBERS}),
    "sequential": (sequential, IDS),
    "subclassed": (Subclassed, IDS_OTHER),
    "shared_twice": (shared_twice, IDS_OTHER),
    "nested": (nested, IDS),
    "normalized": (normalized, IDS),
    "regularized": (regularized, IDS),
    "adds_loss": (AddsLoss, IDS),
    "masked": (masked, np.where(IDS < 6, 0, IDS)),
    "without_tables": (without_tables, NUMBERS),
}


def both(build, batches, **options):
    """Returns a plain model and a job's with the same weights."""
    keras.utils.set_random_seed(5)
    plain = build()
    batch = next(iter(batches))
    plain(keras.utils.unpack_x_y_sample_weight(batch)[0])
    keras.utils.set_random_seed(5)
    job = JobSide(build(), batches, matrices(plain), **options)
    dense = [
        v
        for v in plain.trainable_variables
        if not v.path.endswith("/embeddings")
    ]
    job.steps.assign_dense(
        np.concatenate(
            [np.empty(0, np.float32), *(np.ravel(v.value) for v in dense)]
        )
    )
    return plain, job


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


def test_a_step_leaves_the_model_as_it_was():
    build, features = CASES["normalized"]
    job = JobSide(build(), dataset((features, LABELS)), {"a": np.ones((20, 4))})
    job.tables["a"] = RNG.normal(size=(20, 4)).astype(np.float32)
    before = job.steps.get_dense(), job.steps.get_states()
    result, _ = job.train(*next(iter(job)))
    assert np.abs(result.states).max() > 0
    np.testing.assert_array_equal(job.steps.get_dense(), before[0])
    np.testing.assert_array_equal(job.steps.get_states(), before[1])


def test_sets_and_gives_variables_in_signature_order():
    build, features = CASES["normalized"]
    job = JobSide(
        build(),
        dataset((features, LABELS)),
        {"a": np.ones((20, 4), np.float32)},
    )
    signature = job.prepared.signature
    dense = np.arange(job.steps.get_dense().size, dtype=np.float32)
    states = np.arange(job.steps.get_states().size, dtype=np.float32) + 1000
    job.steps.assign_dense(dense)
    job.steps.assign_states(states)
    start = 0
    for spec, variable in zip(signature.dense, job.prepared.dense, strict=True):
        stop = start + int(np.prod(spec.shape))
        np.testing.assert_array_equal(
            variable.value, dense[start:stop].reshape(spec.shape)
        )
        start = stop
    assert start == dense.size
    np.testing.assert_array_equal(job.steps.get_dense(), dense)
    np.testing.assert_array_equal(job.steps.get_states(), states)
    with pytest.raises(ValueError, match=r"Received: shape=\(3,\)"):
        job.steps.assign_dense(np.zeros(3, np.float32))


def test_traces_once_for_every_size():
    ids = keras.Input((None,), dtype="int64")
    x = Embedding(4, combiner="sum", name="ids")(ids)
    model = keras.Model(ids, layers.Dense(1)(x))
    matrix = RNG.normal(size=(50, 4)).astype(np.float32)
    batches = tf.data.Dataset.from_generator(
        lambda: (
            (RNG.integers(0, 50, (n, m)), np.ones((n, 1), np.float32))
            for n, m in ((4, 3), (1, 7), (3, 1), (2, 2))
        ),
        output_signature=(
            tf.TensorSpec((None, None), tf.int64),
            tf.TensorSpec((None, 1), tf.float32),
        ),
    )
    job = JobSide(model, batches, {"ids": matrix})
    sizes = {len(job.train(*part)[1]) for part in job}
    assert sizes == {1}
    function = job.steps._functions["train"]
    # Other than a tf.function, it cannot be traced again.
    assert isinstance(function, tf.types.experimental.ConcreteFunction)


def test_no_python_runs_in_the_graphs():
    ids = keras.Input((3,), dtype="int64")
    x = Embedding(4, combiner="mean", mask_zero=True, name="ids")(ids)
    x = layers.Concatenate()(
        [x, layers.Flatten()(layers.Embedding(20, 2, name="b")(ids))]
    )
    model = keras.Model(ids, layers.Dense(1)(x))
    job = JobSide(
        model,
        dataset((IDS, LABELS)),
        {
            "ids": np.ones((20, 4), np.float32),
            "b": np.ones((20, 2), np.float32),
        },
        metrics=lambda: {"mae": keras.metrics.MeanAbsoluteError()},
    )
    job.train(*next(iter(job)))
    graph = job.steps._functions["train"].graph
    types = op_types(graph.as_graph_def())
    types |= op_types(job.lookup._pruned.graph.as_graph_def())
    assert "Unique" not in types
    assert "UnsortedSegmentSum" in types
    assert not {t for t in types if "PyFunc" in t}


def op_types(graph_def):
    nodes = list(graph_def.node)
    for function in graph_def.library.function:
        nodes.extend(function.node_def)
    return {node.op for node in nodes}


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


def test_gradients_that_are_no_numbers_are_flagged_and_not_counted():
    job = JobSide(
        without_tables(),
        dataset((NUMBERS, LABELS)),
        loss=lambda labels, predictions: tf.reduce_mean(
            tf.math.log(predictions - predictions)
        ),
    )
    result, _ = job.train(*next(iter(job)))
    assert not bool(result.finite)
    assert job.steps.train_metrics.state()["loss"][1] == 0


def test_a_repeated_step_need_not_count():
    job = JobSide(without_tables(), dataset((NUMBERS, LABELS)))
    batch, ids, rows = next(iter(job))
    first = job.steps.train(batch, rows, ids.inverse)
    again = job.steps.train(batch, rows, ids.inverse, count=False)
    np.testing.assert_array_equal(first.dense, again.dense)
    assert job.steps.train_metrics.state()["loss"][1] == 4


def test_variables_without_a_gradient_get_zeros():
    class Unused(keras.Model):
        def __init__(self):
            super().__init__()
            self.used = layers.Dense(1)
            self.unused = layers.Dense(2)

        def call(self, x):
            self.unused(x)
            return self.used(x)

    job = JobSide(Unused(), dataset((NUMBERS, LABELS)))
    result, _ = job.train(*next(iter(job)))
    sizes = [int(np.prod(s.shape)) for s in job.prepared.signature.dense]
    pieces = np.split(result.dense.numpy(), np.cumsum(sizes)[:-1])
    moved = {
        spec.name.split("/")[-2]: bool(np.any(piece))
        for spec, piece in zip(
            job.prepared.signature.dense, pieces, strict=True
        )
    }
    assert sorted(moved.values()) == [False, True]


class OddError(Exception):
    pass


def test_exceptions_of_the_user_come_out_as_they_are():
    def raising(labels, predictions):
        raise OddError("mine")

    def metrics():
        return {"odd": raising}

    batches = dataset((NUMBERS, LABELS))
    job = JobSide(without_tables(), batches, loss=raising)
    with pytest.raises(OddError, match="mine"):
        job.train(*next(iter(job)))
    job = JobSide(without_tables(), batches, metrics=metrics)
    with pytest.raises(OddError, match="mine"):
        job.train(*next(iter(job)))


def test_labels_of_a_wrong_shape_are_explained():
    job = JobSide(
        keras.Sequential([layers.Dense(3, "softmax")]),
        dataset((NUMBERS, np.ones((8, 2), np.float32))),
        loss=keras.losses.CategoricalCrossentropy(),
    )
    with pytest.raises(
        ConfigError, match=r"(?s)do not fit together: .*\(None, 2\).*Received"
    ) as caught:
        job.train(*next(iter(job)))
    assert "\n" not in str(caught.value)


def test_wrong_use():
    batches = dataset((NUMBERS, LABELS))
    job = JobSide(without_tables(), batches)
    with pytest.raises(ValueError, match="Received: mode='fit'"):
        job.steps.expect("fit", batches.element_spec)
    with pytest.raises(ValueError, match=r"expect\(\) comes before"):
        job.steps.predict(NUMBERS, [], [])
    with pytest.raises(ValueError, match=r"must give \(features, labels\)"):
        job.steps.expect("evaluate", dataset(NUMBERS).element_spec)
    wider = dataset((np.ones((8, 3), np.float32), LABELS))
    with pytest.raises(ValueError, match=r"before.*\(None, 3\)"):
        job.steps.expect("train", wider.element_spec)
