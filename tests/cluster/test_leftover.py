"""What result.json says of a job that its master saw end otherwise."""

import math

from elastic_keras.cluster.launcher import JobOutcome
from elastic_keras.cluster.leftover import completed
from elastic_keras.wire.proto import master_pb2

_RESTARTS = {"worker": 2, "ps": 0, "master": 0}
_FAILED = JobOutcome("job", "failed", 1, "ps-1 was killed by SIGKILL.")


def _completed(left, outcome=_FAILED, **status):
    return completed(
        left,
        outcome,
        master_pb2.JobStatus(**status),
        seconds=3.5,
        restarts=_RESTARTS,
    )


def test_the_launchers_failure_overrides_the_masters_stop():
    left = {"status": "stopped", "error": "told to end", "steps": 7}
    assert _completed(left) == {
        "status": "failed",
        "ended_by": "error",
        "error": "ps-1 was killed by SIGKILL.",
        "exit_code": 1,
        "steps": 7,
    }
    assert left["status"] == "stopped"


def test_what_the_master_knows_as_well_stays():
    left = {"status": "failed", "error": "Traceback: theirs"}
    assert _completed(left) == left


def test_a_result_without_a_master_has_every_key():
    result = _completed(
        None,
        steps=9,
        epoch=1,
        records_done=40,
        evaluation={"auc": 0.5, "loss": math.nan},
        staleness_max=3,
        staleness_mean=0.5,
    )
    assert result["staleness"] == {"max": 3, "mean": 0.5, "histogram": []}
    assert (result["status"], result["ended_by"]) == ("failed", "error")
    assert (result["steps"], result["epochs"]) == (9, 1)
    assert (result["seconds"], result["shards"]) == (3.5, [])
    assert result["evaluation"] == {"auc": 0.5, "loss": None}
    assert result["restarts"] == _RESTARTS
    assert result["examples_per_second"] == 0.0
    assert result["records_trained"] == 40


def test_a_stopped_job_says_so():
    outcome = JobOutcome("job", "stopped", 130)
    assert _completed(None, outcome)["ended_by"] == "stop"
