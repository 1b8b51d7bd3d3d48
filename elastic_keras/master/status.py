"""The job's status as people see it while it runs."""

import math

from elastic_keras.wire.proto import master_pb2

FINAL_PHASES = ("succeeded", "failed", "stopped")


def seconds_left(done: int, expected: int, rate: float) -> float:
    """Returns the time that training still takes, -1 where not known.

    Args:
        done: Records trained.
        expected: Records to train.
        rate: Records trained in a second.
    """
    if rate <= 0 or not math.isfinite(rate):
        return -1.0
    return max(expected - done, 0) / rate


def waiting_message(
    *, alive: int, wanted: int, seconds: float, patience: float, job_dir: str
) -> str:
    """Returns one line on workers that do not come, or nothing.

    It stays the same while nothing changes: a log then shows it once.

    Args:
        alive: Workers that have joined.
        wanted: Workers that the job is to have.
        seconds: How long it has been so.
        patience: Seconds of silence that are nothing to talk of.
        job_dir: Where the workers' logs are.
    """
    if alive >= wanted or seconds < patience:
        return ""
    return (
        f"waiting for workers: {alive} of {wanted} are there; "
        f"see {job_dir}/logs/worker-*.log"
    )


def is_final(status: master_pb2.JobStatus) -> bool:
    """Returns whether no other status follows."""
    return status.phase in FINAL_PHASES
