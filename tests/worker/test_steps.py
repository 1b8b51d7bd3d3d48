"""What steps leave alone, how they are traced, and wrong use."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.layers import Embedding
from tests.worker.reference import JobSide, dataset
from tests.worker.step_cases import (
    CASES,
    IDS,
    LABELS,
    NUMBERS,
    without_tables,
)

layers = keras.layers
RNG = np.random.default_rng(1)


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
