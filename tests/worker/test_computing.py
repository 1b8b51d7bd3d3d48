import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras import layers
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker import items
from elastic_keras.worker.computing import (
    TrainComputing,
    decode_states,
    encode_states,
)
from elastic_keras.worker.job_data import TaskBatches
from elastic_keras.worker.running_logs import RunningLogs
from elastic_keras.worker.stats import WorkerStats
from elastic_keras.worker.task_run import TaskRun
from elastic_keras.worker.values import Dense, Pulled
from tests.worker.reference import JobSide, dataset

IDS = np.asarray([[1], [2], [1], [3]], np.int64)


def _one(labels):
    """Returns a job with one batch, and that batch."""
    inputs = keras.Input((1,), dtype="int64")
    rows = layers.Embedding(3, name="rows")(inputs)
    flat = keras.layers.Flatten()(rows)
    model = keras.Model(inputs, keras.layers.Dense(1)(flat))
    job = JobSide(
        model,
        dataset((IDS, np.asarray(labels, np.float32).reshape(4, 1))),
        metrics=lambda: {"error": keras.metrics.MeanAbsoluteError()},
    )
    elements = job.lookup.map(job.batches)
    batch = next(TaskBatches(elements, None, 1).batches())
    run = TaskRun(master_pb2.Task(), lambda report: None)
    return job, items.TrainBatch(run, 0, batch)


def _pulled(version, dense, rows=1.0):
    return Pulled(
        rows=[np.full((3, 3), rows, np.float32)],
        versions=(version,),
        dense=Dense(
            (version,),
            np.full(4, dense, np.float32),
            np.empty(0, np.float32),
        ),
        iterations=version,
    )


@pytest.fixture
def stats():
    return WorkerStats()


def test_a_step_computes_on_what_was_pulled(stats):
    job, train = _one([0, 0, 0, 0])
    computing = TrainComputing(job.steps, stats)
    gradients = computing.compute(train, _pulled(1, 0.5), again=False)
    # Each prediction is 3 * 1 * 0.5 + 0.5 = 2; its loss 4.
    np.testing.assert_array_equal(job.steps.get_dense(), [0.5] * 4)
    assert gradients.rows[0].shape == (3, 3)
    np.testing.assert_allclose(gradients.dense, [4, 4, 4, 4])
    np.testing.assert_allclose(gradients.rows[0][:, 0], [1.0, 0.5, 0.5])
    assert gradients.nonfinite is False
    heartbeat = stats.take()
    assert (heartbeat.steps, heartbeat.examples) == (1, 4)
    assert heartbeat.loss_sum == pytest.approx(4.0)
    assert heartbeat.metrics["error"] == pytest.approx(2.0)
    assert computing.succeeded


def test_dense_parameters_are_assigned_when_they_changed(stats):
    job, train = _one([0, 0, 0, 0])
    computing = TrainComputing(job.steps, stats)
    given = []
    step = job.steps.train

    def watch(*args, dense, **kwargs):
        given.append(None if dense is None else float(dense[0]))
        return step(*args, dense=dense, **kwargs)

    job.steps.train = watch
    for version, dense in ((1, 0.5), (1, 0.5), (2, 0.25), (1, 0.5)):
        computing.compute(train, _pulled(version, dense), again=False)
        np.testing.assert_array_equal(job.steps.get_dense(), [dense] * 4)
    assert given == [0.5, None, 0.25, 0.5]


def test_a_recomputed_batch_is_counted_once(stats):
    job, train = _one([0, 0, 0, 0])
    computing = TrainComputing(job.steps, stats)
    computing.begin_task()
    computing.compute(train, _pulled(1, 0.5), again=False)
    gradients = computing.compute(train, _pulled(2, 1.0), again=True)
    np.testing.assert_allclose(gradients.dense, [8] * 4)
    assert stats.take().steps == 1
    states = decode_states(computing.end_task())
    assert job.steps.train_metrics.result_from(states) == {
        "loss": pytest.approx(4.0),
        "error": pytest.approx(2.0),
    }


def test_metrics_begin_anew_with_each_task(stats):
    job, train = _one([0, 0, 0, 0])
    computing = TrainComputing(job.steps, stats)
    computing.compute(train, _pulled(1, 0.5), again=False)
    computing.begin_task()
    states = decode_states(computing.end_task())
    assert not any(np.any(array) for s in states.values() for array in s)


def test_a_batch_without_finite_gradients_is_told_apart(stats):
    job, train = _one([0, np.nan, 0, 0])
    gradients = TrainComputing(job.steps, stats).compute(
        train, _pulled(1, 0.5), again=False
    )
    assert gradients.nonfinite is True
    heartbeat = stats.take()
    # A NaN would spoil every later mean.
    assert (heartbeat.steps, heartbeat.loss_sum) == (1, 0.0)


class _Hooks:
    def __init__(self, wanted):
        self.wants_train_batches = wanted
        self.calls = []

    def train_batch_begin(self):
        self.calls.append("begin")

    def train_batch_end(self, logs):
        self.calls.append(sorted(logs))


@pytest.mark.parametrize("wanted", [True, False])
def test_hooks_surround_the_batch_where_they_are_wanted(stats, wanted):
    job, train = _one([0, 0, 0, 0])
    hooks = _Hooks(wanted)
    computing = TrainComputing(job.steps, stats, hooks)
    computing.compute(train, _pulled(1, 0.5), again=False)
    computing.compute(train, _pulled(1, 0.5), again=True)
    assert hooks.calls == (["begin", ["error", "loss"]] if wanted else [])


def test_hooks_get_logs_that_run_over_the_epochs_tasks(stats):
    job, train = _one([0, 0, 0, 0])
    running = RunningLogs(job.steps.train_metrics)
    hooks = _Hooks(True)
    hooks.train_batch_end = lambda logs: hooks.calls.append(logs["error"])
    computing = TrainComputing(job.steps, stats, hooks, running)

    def task(*dense):
        computing.begin_task()
        for version, value in enumerate(dense, len(hooks.calls)):
            # Each prediction is 4 times the value.
            computing.compute(train, _pulled(version, value), again=False)
        return decode_states(computing.end_task())["error"]

    total, count = task(0.25, 0.5)
    # What is reported is the task's alone.
    assert (total, count) == (4 + 8, 8)
    assert task(0.75)[0] == 12
    # As Keras has it: the mean over the epoch so far.
    errors = [call for call in hooks.calls if call != "begin"]
    assert errors == pytest.approx([1.0, 1.5, 2.0])
    running.restart()
    task(0.25)
    assert hooks.calls[-1] == pytest.approx(1.0)


def test_states_survive_the_wire():
    states = {
        "auc": [np.arange(3, dtype=np.float32), np.asarray([2.5], np.float32)],
        "count": [np.asarray(7, np.int64)],
    }
    found = decode_states(encode_states(states))
    assert found.keys() == states.keys()
    for name, arrays in states.items():
        for ours, theirs in zip(found[name], arrays, strict=True):
            np.testing.assert_array_equal(ours, theirs)
            assert ours.dtype == theirs.dtype


def test_the_step_is_fed_tensors(stats):
    job, train = _one([0, 0, 0, 0])
    seen = []
    step = job.steps.train

    def watch(batch, rows, inverse, **options):
        seen.extend([*rows, *inverse])
        return step(batch, rows, inverse, **options)

    job.steps.train = watch
    TrainComputing(job.steps, stats).compute(
        train, _pulled(1, 0.5), again=False
    )
    assert all(tf.is_tensor(part) for part in seen)


class _Observer:
    """Notes what it is told."""

    def __init__(self):
        self.told = []

    def begin(self):
        self.told.append("begin")

    def end(self, pulled, gradients):
        self.told.append((pulled.iterations, gradients.dense.tolist()))

    def close(self):
        self.told.append("close")


def test_observers_see_a_step_with_its_arrays(stats):
    job, train = _one([0, 0, 0, 0])
    computing = TrainComputing(job.steps, stats)
    observer = _Observer()
    computing.compute(train, _pulled(1, 0.5), again=False)
    computing.observers = (observer,)
    computing.compute(train, _pulled(2, 0.5), again=False)
    computing.observers = ()
    computing.compute(train, _pulled(3, 0.5), again=False)
    assert observer.told == ["begin", (2, pytest.approx([4.0] * 4))]
