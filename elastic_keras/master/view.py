"""How a job looks from outside: its status and its result."""

from typing import TYPE_CHECKING, Any

from elastic_keras.cluster import leftover
from elastic_keras.master import end_checks
from elastic_keras.master import result as results
from elastic_keras.master import status as statuses
from elastic_keras.master.flow import EndedBy
from elastic_keras.master.reading import ReadingFlow
from elastic_keras.wire.proto import master_pb2

if TYPE_CHECKING:
    from elastic_keras.master.job import Job

_JOIN_PATIENCE = 20.0


def status(job: "Job") -> master_pb2.JobStatus:
    """Returns what the launcher shows.

    Args:
        job: The job.
    """
    if job.config.command != "train":
        return _reading_status(job, job.reading)
    training = job.dispatch.training
    staleness = job.monitor.staleness
    done = records_trained(job) if job.over else _records_so_far(job)
    expected = records_expected(job)
    rate = job.stats.examples_per_second(job.now)
    left = 0.0
    if not job.over:
        # The first steps are traced and compiled: no measure of the others.
        known = rate if job.stats.settled(job.now) else 0.0
        left = statuses.seconds_left(done, expected, known)
    loss, metrics = _trained_values(job)
    return master_pb2.JobStatus(
        phase=job.phase,
        epoch=training.epoch if training else 0,
        num_epochs=job.config.training.num_epochs,
        records_done=done,
        records_expected=expected,
        steps=steps(job),
        examples_per_second=average_speed(job) if job.over else rate,
        seconds_left=left,
        loss=loss,
        metrics=metrics,
        evaluation=job.history.evaluation,
        staleness_max=staleness.max,
        staleness_mean=staleness.mean,
        workers_alive=job.membership.alive,
        workers_wanted=job.workers_wanted,
        tasks_waiting=training.waiting if training else 0,
        tasks_running=training.running if training else 0,
        error=job.outcome.message,
        exit_code=job.outcome.exit_code,
        message=_message(job),
    )


def result(job: "Job") -> dict[str, Any]:
    """Returns what goes into result.json.

    Args:
        job: A job that has ended.
    """
    made = _read(job, job.reading) if job.reading else _trained(job)
    made["shards"] = results.shard_results(job.monitor.statuses)
    made["restarts"] = results.restarts(job.job_dir, job.membership.restarts)
    if job.outcome.phase != "succeeded":
        made["error"] = job.outcome.message
        made["exit_code"] = job.outcome.exit_code
    return made


def _trained(job: "Job") -> dict[str, Any]:
    training = job.dispatch.training
    staleness = job.monitor.staleness
    return {
        "status": job.outcome.phase,
        "ended_by": _ended_by(job),
        "steps": end_checks.steps_done(job.monitor.statuses),
        "epochs": training.epochs_done if training else 0,
        "records_trained": records_trained(job),
        "records_expected": records_expected(job),
        "examples_trained": end_checks.trained_examples(job.monitor.statuses),
        "bad_records": training.counts().bad_records if training else 0,
        "seconds": job.seconds,
        "examples_per_second": average_speed(job),
        "evaluation": job.history.evaluation,
        "evaluations": job.history.evaluations_to_json(),
        "history": job.history.epochs_to_json(),
        "staleness": {
            "max": staleness.max,
            "mean": staleness.mean,
            "histogram": list(staleness.histogram),
        },
        "snapshot": job.snapshot,
    }


def _read(job: "Job", flow: ReadingFlow) -> dict[str, Any]:
    """Returns the result of a job that trained nothing."""
    finished = flow.finished
    return {
        "status": job.outcome.phase,
        "ended_by": leftover.ENDED_BY.get(job.outcome.phase, "data"),
        "command": job.config.command,
        "step": flow.step,
        "records_read": sum(item.records for item in finished),
        "records_expected": flow.records_expected
        - sum(item.bad_records for item in finished),
        "bad_records": sum(item.bad_records for item in finished),
        "examples": sum(item.examples for item in finished),
        "seconds": job.seconds,
        "examples_per_second": _reading_speed(job, flow),
        "evaluation": job.history.evaluation,
    }


def _reading_status(
    job: "Job", flow: ReadingFlow | None
) -> master_pb2.JobStatus:
    done = expected = 0
    speed = left = 0.0
    if flow is not None:
        done = sum(item.records for item in flow.finished)
        expected = flow.records_expected
        speed = _reading_speed(job, flow)
        left = statuses.seconds_left(done, expected, speed)
    return master_pb2.JobStatus(
        phase=job.phase,
        records_done=done,
        records_expected=expected,
        examples_per_second=speed,
        seconds_left=0.0 if job.over else left,
        evaluation=job.history.evaluation,
        workers_alive=job.membership.alive,
        workers_wanted=job.workers_wanted,
        tasks_waiting=job.dispatch.side.waiting,
        tasks_running=job.dispatch.side.running,
        error=job.outcome.message,
        exit_code=job.outcome.exit_code,
        message=_message(job),
    )


def _reading_speed(job: "Job", flow: ReadingFlow) -> float:
    """Returns examples a second since the first task was handed out."""
    if flow.began_at is None:
        return 0.0
    seconds = job.now - flow.began_at
    examples = sum(item.examples for item in flow.finished)
    return examples / seconds if seconds > 0 else 0.0


def steps(job: "Job") -> int:
    """Returns the steps that every shard has taken, as far as known."""
    known = end_checks.steps_done(job.monitor.statuses)
    return known if job.over else max(known, job.stats.steps)


def records_expected(job: "Job") -> int:
    """Returns the records to train: all of each epoch but broken ones."""
    if job.ranges is None:
        return 0
    records = sum(r.count for r in job.ranges.training)
    expected = records * job.config.training.num_epochs
    training = job.dispatch.training
    return expected - (training.counts().bad_records if training else 0)


def records_trained(job: "Job") -> int:
    """Returns the records whose examples every shard has taken.

    A job that ended inside a task knows only the examples of that task;
    they count as records where `dataset_fn` makes one of each.
    """
    training = job.dispatch.training
    if training is None:
        return 0
    counts = training.counts()
    complete = job.flow is None or job.flow.ended_by is EndedBy.EPOCHS
    if job.outcome.phase == "succeeded" and complete:
        return counts.records
    if counts.examples != counts.records:
        return counts.records
    return end_checks.trained_examples(job.monitor.statuses)


def average_speed(job: "Job") -> float:
    """Returns examples a second since the first task was handed out."""
    seconds = job.training_seconds
    examples = end_checks.trained_examples(job.monitor.statuses)
    return examples / seconds if seconds > 0 else 0.0


def _records_so_far(job: "Job") -> int:
    training = job.dispatch.training
    if training is None:
        return 0
    trained = end_checks.trained_examples(job.monitor.statuses)
    done = max(training.counts().records, job.stats.examples, trained)
    return min(done, records_expected(job))


def _trained_values(job: "Job") -> tuple[float, dict[str, float]]:
    """Returns the training loss and metrics to show.

    Of an epoch that is over they are its own, until later steps are heard
    of: the running ones are of its last batches, and a short job has none.
    """
    training = job.dispatch.training
    for point in reversed(job.history.epochs):
        of_now = training is not None and point.epoch == training.epoch
        if of_now or point.step >= job.stats.steps:
            return point.values.get("loss", 0.0), point.values
    return job.stats.loss or 0.0, job.stats.metrics


def _ended_by(job: "Job") -> str:
    if job.outcome.phase in leftover.ENDED_BY:
        return leftover.ENDED_BY[job.outcome.phase]
    return job.flow.ended_by.value if job.flow else ""


def _message(job: "Job") -> str:
    trouble = job.snapshots.trouble or job.keeper.trouble
    if job.over or job.ranges is None or trouble:
        return trouble
    return statuses.waiting_message(
        alive=job.membership.alive,
        wanted=job.workers_wanted,
        seconds=job.seconds,
        patience=_JOIN_PATIENCE,
        job_dir=job.job_dir,
    )
