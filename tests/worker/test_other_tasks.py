"""Evaluation, merging and callbacks, against real shards."""

import json

import keras
import numpy as np
import pytest

from elastic_keras import layers
from elastic_keras.data.reader import Counts
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.computing import TrainComputing, decode_states
from elastic_keras.worker.job_data import TaskBatches
from elastic_keras.worker.other_tasks import OtherTasks
from elastic_keras.worker.running_logs import RunningLogs
from elastic_keras.worker.stats import WorkerStats
from elastic_keras.worker.watchdog import Watchdog
from tests.worker.reference import JobSide, dataset
from tests.worker.stand_ins import Shards

IDS = np.arange(10, dtype=np.int64).reshape(10, 1)
LABELS = np.arange(10, dtype=np.float32).reshape(10, 1)


class _Watchdog(Watchdog):
    """Notes what is watched."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def watch(self, what, *, may_last=False):
        self.seen.append((what, may_last))
        return super().watch(what, may_last=may_last)


class _Callbacks:
    wants_test_batches = True
    wants_train_batches = False

    def __init__(self):
        self.calls = []
        self.errors = []

    def run(self, task):
        self.calls.append(task.hook)
        return {"stop": True}

    def test_batch_begin(self):
        self.calls.append("begin")

    def test_batch_end(self, logs):
        self.calls.append(sorted(logs))
        self.errors.append(logs["error"])


class _Job:
    """A model whose prediction is 0 for everything, on two shards."""

    def __init__(self, shards, metric=None, callbacks=None, chief=True):
        inputs = keras.Input((1,), dtype="int64")
        rows = layers.Embedding(2, "zeros", name="rows")(inputs)
        flat = keras.layers.Flatten()(rows)
        model = keras.Model(inputs, keras.layers.Dense(1)(flat))
        metric = metric or keras.metrics.MeanAbsoluteError
        self.side = JobSide(
            model,
            dataset((IDS, LABELS)),
            metrics=lambda: {"error": metric()},
            mode="evaluate",
        )
        self.steps = self.side.steps
        self.client = shards.client_of(self.side.prepared.signature)
        self.client.join()
        self.client.init_dense(np.zeros(3, np.float32), np.empty(0, np.float32))
        self.reports = []
        self.running = RunningLogs(self.steps.evaluation_metrics)
        computing = TrainComputing(
            self.steps, WorkerStats(), callbacks if chief else None
        )
        self.watchdog = _Watchdog()
        self.tasks = OtherTasks(
            client=self.client,
            open_data=self._open,
            steps=self.steps,
            computing=computing,
            callbacks=callbacks,
            running=self.running,
            report=self.reports.append,
            describe=lambda error: {"error": repr(error)},
            watchdog=self.watchdog,
        )

    def _open(self, task):
        batches = self.side.batches.skip(task.range.start)
        return TaskBatches(
            self.side.lookup.map(batches.take(task.range.count)),
            Counts(4, 1),
            2,
        )

    def do(self, kind, **fields):
        self.tasks.do(master_pb2.Task(kind=kind, lease=8, **fields))
        return self.reports[-1]

    def evaluate(self, start=0, count=3):
        """Evaluates some of the three batches."""
        span = master_pb2.RecordRange(start=start, count=count)
        return self.do(master_pb2.TASK_EVALUATE, range=span)


@pytest.fixture
def shards():
    with Shards(2) as shards:
        yield shards


def test_an_evaluation_reports_states_and_counts(shards):
    report = _Job(shards).evaluate()
    assert (report.lease, report.error) == (8, "")
    assert (report.batches, report.examples) == (3, 10)
    assert (report.records, report.bad_records) == (4, 1)
    total, count = decode_states(report.states)["error"]
    assert (total, count) == (45.0, 10.0)


def test_reading_makes_no_rows(shards):
    _Job(shards).evaluate()
    assert shards.rows() == {}


def test_an_evaluation_forgets_the_one_before(shards):
    job = _Job(shards)
    assert job.evaluate().states == job.evaluate().states


def test_states_of_two_parts_merge_to_the_whole(shards):
    job = _Job(shards)
    parts = [job.evaluate(0, 1), job.evaluate(1, 2)]
    whole = job.evaluate()
    merged = master_pb2.MetricStates()
    merged.CopyFrom(whole.states)
    report = job.do(master_pb2.TASK_MERGE, states=merged)
    assert json.loads(report.result) == {"error": 4.5, "loss": 28.5}
    totals = [decode_states(part.states)["error"][0] for part in parts]
    assert sum(totals) == 45.0


def test_a_raising_metric_is_reported(shards):
    class Raising(keras.metrics.Metric):
        def update_state(self, y_true, y_pred, sample_weight=None):
            raise KeyError("my metric")

        def result(self):
            return 0.0

    report = _Job(shards, Raising).evaluate()
    assert "my metric" in report.error
    assert not report.states.metrics


def test_a_hook_is_called_and_its_wish_reported(shards):
    callbacks = _Callbacks()
    report = _Job(shards, callbacks=callbacks).do(
        master_pb2.TASK_CALLBACK, hook="on_epoch_end"
    )
    assert callbacks.calls == ["on_epoch_end"]
    assert json.loads(report.result) == {"stop": True}


def test_without_callbacks_a_hook_is_done(shards):
    report = _Job(shards).do(master_pb2.TASK_CALLBACK, hook="on_epoch_end")
    assert json.loads(report.result) == {"stop": False}


@pytest.mark.parametrize("chief", [True, False])
def test_hooks_surround_the_chiefs_batches_of_an_evaluation(shards, chief):
    callbacks = _Callbacks()
    _Job(shards, callbacks=callbacks, chief=chief).evaluate(count=2)
    expected = ["begin", ["error", "loss"]] * 2
    assert callbacks.calls == (expected if chief else [])


def test_logs_run_over_the_tasks_of_an_evaluation(shards):
    callbacks = _Callbacks()
    job = _Job(shards, callbacks=callbacks)
    job.evaluate(0, 1)
    job.evaluate(1, 2)
    # The mean of the labels so far, in batches of 4.
    assert callbacks.errors == pytest.approx([1.5, 3.5, 4.5])


def test_a_shard_out_of_reach_is_no_exception_of_the_users(shards):
    job = _Job(shards)
    job.client.close()
    with pytest.raises(RpcError):
        job.evaluate()
    assert job.reports == []


def test_hooks_and_metrics_are_watched(shards):
    job = _Job(shards, callbacks=_Callbacks())
    states = job.evaluate(0, 1).states
    job.do(master_pb2.TASK_MERGE, states=states)
    job.do(master_pb2.TASK_CALLBACK, hook="on_epoch_end")
    assert job.watchdog.seen == [
        ("the callbacks' on_test_batch_begin", True),
        ("an evaluation step", False),
        ("the callbacks' on_test_batch_end", True),
        ("computing the metrics' results", False),
        ("the callbacks' on_epoch_end", True),
    ]
