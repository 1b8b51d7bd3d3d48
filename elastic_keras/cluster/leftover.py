"""What the launcher says in result.json where the master could not."""

import math
from typing import Any

from elastic_keras.cluster.launcher import JobOutcome
from elastic_keras.wire.proto import master_pb2

# What ended a job that did not come to its own end.
ENDED_BY = {"failed": "error", "stopped": "stop"}


def completed(
    left: dict[str, Any] | None,
    outcome: JobOutcome,
    status: master_pb2.JobStatus,
    *,
    seconds: float,
    restarts: dict[str, int],
) -> dict[str, Any]:
    """Returns the result of a job as its launcher saw it end.

    The master knows the numbers. It does not know of a shard that died or
    of a worker that could not start: the launcher then ends it with the
    rest, and it takes the job for stopped.

    Args:
        left: What the master left in result.json; `None` if nothing.
        outcome: How the job ended.
        status: The last status that the master sent.
        seconds: How long the job took.
        restarts: Restarts by role.
    """
    if left is not None and left.get("status") == outcome.status:
        return left
    result = _of_status(status) if left is None else dict(left)
    result["status"] = outcome.status
    if outcome.status in ENDED_BY:
        result["ended_by"] = ENDED_BY[outcome.status]
        result["error"] = outcome.error
        result["exit_code"] = outcome.exit_code
    if left is None:
        result["seconds"] = seconds
        result["restarts"] = dict(restarts)
    return result


def _of_status(status: master_pb2.JobStatus) -> dict[str, Any]:
    return {
        "status": "",
        "ended_by": "",
        "steps": status.steps,
        "epochs": status.epoch,
        "records_trained": status.records_done,
        "records_expected": status.records_expected,
        "bad_records": 0,
        "seconds": 0.0,
        "examples_per_second": status.examples_per_second,
        "evaluation": {
            name: value if math.isfinite(value) else None
            for name, value in status.evaluation.items()
        },
        "evaluations": [],
        "history": [],
        "staleness": {
            "max": status.staleness_max,
            "mean": status.staleness_mean,
            "histogram": [],
        },
        # Only the shards themselves know.
        "shards": [],
        "restarts": {},
    }
