"""A job's state, from its master or from its result."""

import dataclasses
import json
import math

import pytest

from elastic_keras.monitoring import job_view
from tests.monitoring.stand_ins import describe

_RESULT = {
    "status": "succeeded",
    "steps": 40,
    "epochs": 3,
    "records_trained": 1500,
    "records_expected": 1500,
    "seconds": 80.0,
    "examples_per_second": 1000.0,
    "evaluation": {"auc": 0.625, "broken": None},
    "history": [
        {"step": 20, "epoch": 1, "values": {"loss": 1.0}},
        {"step": 40, "epoch": 2, "values": {"loss": 0.5, "auc": 0.75}},
    ],
    "staleness": {"max": 5, "mean": 1.5, "histogram": [1]},
    "shards": [
        {
            "rows": 3,
            "bytes": 40,
            "version": 40,
            "iterations": 40,
            "tables": {"users": {"rows": 3, "bytes": 30}},
            "pulled_bytes": pulled,
            "pushed_bytes": 1,
        }
        for pulled in (7, 9)
    ],
    "restarts": {"worker": 2},
}


def test_a_running_job():
    view = job_view.of_description("runs/a", describe())
    assert view.running
    assert (view.epoch, view.num_epochs) == (2, 3)
    assert (view.loss, view.metrics) == (0.5, {"auc": 0.75})
    assert view.seconds_left == 61
    assert [worker.alive for worker in view.workers] == [True, True, False]
    assert view.slowest_worker == 1
    assert view.hottest_shard == 1
    assert view.shards[0].tables == {"users": (3, 99)}


def test_what_nobody_knows_is_none():
    view = job_view.of_description("a", describe(seconds_left=-1.0, loss=0.0))
    assert view.seconds_left is None
    assert view.loss is None


def test_a_job_that_is_just_over():
    view = job_view.of_description("a", describe("succeeded", epoch=3))
    assert not view.running
    assert view.epoch == 3


def test_a_job_that_trains_nothing_has_no_epoch():
    made = describe("predicting", epoch=0, num_epochs=0)
    view = job_view.of_description("a", made)
    assert (view.epoch, view.num_epochs) == (0, 0)


def test_nobody_stands_out_among_equals_or_alone():
    view = job_view.of_description("a", describe())
    worker, shard = view.workers[0], view.shards[0]
    equal = dataclasses.replace(
        view, workers=(worker, worker), shards=(shard, shard)
    )
    assert (equal.slowest_worker, equal.hottest_shard) == (None, None)
    alone = dataclasses.replace(view, workers=(worker,), shards=(shard,))
    assert (alone.slowest_worker, alone.hottest_shard) == (None, None)


def test_a_worker_without_a_training_task_is_not_the_slowest():
    view = job_view.of_description("a", describe())
    first, second, third = view.workers
    idle = dataclasses.replace(second, training=False)
    view = dataclasses.replace(view, workers=(first, idle, third))
    assert view.slowest_worker is None


def test_a_result():
    view = job_view.of_result("runs/a", _RESULT, num_epochs=4)
    assert (view.running, view.phase) == (False, "succeeded")
    assert (view.epoch, view.num_epochs) == (3, 4)
    assert view.records_done == view.records_expected == 1500
    assert (view.loss, view.metrics) == (0.5, {"auc": 0.75})
    assert (view.staleness_max, view.staleness_mean) == (5, 1.5)
    assert view.shards[1].tables == {"users": (3, 30)}
    # By the sums: there is no present speed.
    assert view.hottest_shard == 1


def test_the_result_of_an_evaluation():
    result = {
        "status": "failed",
        "records_read": 7,
        "records_expected": 9,
        "error": "Traceback",
    }
    view = job_view.of_result("a", result)
    assert (view.records_done, view.error) == (7, "Traceback")


def test_json_is_strict_and_whole():
    made = describe(metrics={"auc": math.nan})
    raw = json.loads(
        job_view.of_description("a", made).to_json(),
        parse_constant=pytest.fail,
    )
    assert raw["metrics"] == {"auc": None}
    assert raw["phase"] == "training"
    assert (raw["slowest_worker"], raw["hottest_shard"]) == (1, 1)
    assert raw["workers"][1]["own_seconds"] == 0.25
    assert raw["shards"][0]["tables"] == {"users": {"rows": 3, "bytes": 99}}
    ended = json.loads(job_view.of_result("a", _RESULT).to_json())
    assert raw.keys() == ended.keys()
