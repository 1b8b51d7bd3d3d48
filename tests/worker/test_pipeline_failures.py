"""A pipeline whose step, data, master or shards fail."""

import dataclasses
import threading

import pytest

from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.pipeline import Outcome
from tests.worker.pipelines import MODEL, assert_applied, make_pipeline, run
from tests.worker.stand_ins import (
    PATIENCE,
    Data,
    Ones,
    ScriptedMaster,
    Shards,
    batch,
    train_task,
)


def test_an_exception_of_the_step_is_reported_and_work_goes_on():
    def fail(train, pulled, again):
        if train.run.task.task == 0 and train.index == 1:
            raise ValueError("the user's mistake")

    tasks = [train_task(0, 1), train_task(1, 2), train_task(2, 3)]
    with Shards(2) as shards:
        master = ScriptedMaster(shards.shards, tasks)
        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([task.task], 2)] * 3),
            Ones(MODEL, fail),
        )
        assert run(pipeline) is Outcome.JOB_OVER
        # One batch of task 0 was in time; the others are complete.
        assert_applied(shards, [[0]] + [[1]] * 3 + [[2]] * 3)
    failed = [r for r in master.reports if r.error]
    assert [(r.lease, r.error) for r in failed] == [
        (1, 'ValueError("the user\'s mistake")')
    ]
    done = {r.lease % 1000 for r in master.reports if r.batches}
    assert done == {2, 3}


def test_an_exception_of_the_data_comes_after_the_batches():
    with Shards(1) as shards:
        master = ScriptedMaster(shards.shards, [train_task(0, 1)])
        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([4], 1)] * 2, KeyError("column")),
        )
        assert run(pipeline) is Outcome.JOB_OVER
        assert shards.shards[0].report().batches == 2
    assert [r.error for r in master.reports] == ["KeyError('column')"]


def test_an_exception_of_the_data_holds_up_no_other_task():
    errors = {0: KeyError("column"), 1: None}
    with Shards(1) as shards:
        master = ScriptedMaster(
            shards.shards, [train_task(0, 1), train_task(1, 2)]
        )
        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([4], 1)] * 5, errors[task.task]),
        )
        assert run(pipeline) is Outcome.JOB_OVER
        assert_applied(shards, [[4]] * 10)
    assert [(r.lease, r.error) for r in master.reports] == [
        (1, "KeyError('column')"),
        (2, ""),
    ]


def test_a_lost_worker_reports_nothing_more():
    with Shards(1) as shards:
        master = ScriptedMaster(shards.shards, [train_task(0, 1)])

        def lose(train, pulled, again):
            if train.index == 2:
                pipeline.end(Outcome.LOST)

        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([1], 1)] * 9),
            Ones(MODEL, lose),
        )
        assert run(pipeline) is Outcome.LOST
    assert master.reports == []


@pytest.mark.parametrize("call", ["get_task", "report"])
def test_a_master_that_forgot_the_worker_is_joined_again(call):
    def forget(*args, **kwargs):
        raise RpcError("NOT_FOUND", "unknown worker", "unix:/x", call)

    merge = master_pb2.Task(kind=master_pb2.TASK_MERGE, lease=9)
    with Shards(1) as shards:
        master = ScriptedMaster(shards.shards, [merge, train_task(0, 1)])
        if call == "get_task":
            setattr(master, call, forget)
        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([1], 1)] * 3),
            other_task=forget,
        )
        assert run(pipeline) is Outcome.LOST
    assert master.reports == []


class _Narrow(Ones):
    """Gives gradients of rows that are too narrow."""

    def compute(self, train, pulled, *, again):
        made = super().compute(train, pulled, again=again)
        return dataclasses.replace(made, rows=[r[:, :1] for r in made.rows])


def test_an_error_of_the_shards_ends_the_pipeline():
    with Shards(1) as shards:
        master = ScriptedMaster(shards.shards, [train_task(0, 1)])
        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([1], 1)] * 3),
            _Narrow(MODEL),
        )
        raised = []

        def run():
            try:
                pipeline.run()
            except Exception as error:
                raised.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(PATIENCE)
    assert "gradients: must be float32 of shape (1, 4)" in str(raised[0])
