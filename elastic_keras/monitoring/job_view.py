"""How a job stands, as people, scripts and Prometheus are told."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from elastic_keras.monitoring import strict_json
from elastic_keras.wire.proto import master_pb2

PHASES = (
    "starting",
    "training",
    "evaluating",
    "predicting",
    "succeeded",
    "failed",
    "stopped",
)
FINAL_PHASES = PHASES[-3:]
_Shown = TypeVar("_Shown")
# Value by metric; `None` where result.json has it for one not finite.
_Values = dict[str, float | None]


@dataclasses.dataclass(frozen=True)
class WorkerView:
    """A worker; see `WorkerStatus` in protos/master.proto."""

    index: int
    alive: bool
    training: bool
    steps: int
    examples: int
    examples_per_second: float
    own_seconds: float
    pull_seconds: float
    push_seconds: float


@dataclasses.dataclass(frozen=True)
class ShardView:
    """A shard; see `ShardStatus` in protos/ps.proto.

    Args:
        tables: (rows, bytes) by the table's name.
    """

    index: int
    version: int = 0
    rows: int = 0
    bytes: int = 0
    tables: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    pulled_bytes: int = 0
    pushed_bytes: int = 0
    pulled_bytes_per_second: float = 0.0
    pushed_bytes_per_second: float = 0.0
    waiting_pulls: int = 0
    refused_pushes: int = 0
    nonfinite_pushes: int = 0


@dataclasses.dataclass(frozen=True)
class JobView:
    """A job that runs, or that has ended.

    Args:
        job_dir: Its directory.
        running: Whether a master answered, whose job is not over.
        phase: One of `PHASES`.
        epoch: The epoch, from 1; of a job that has ended, epochs done.
        num_epochs: Epochs to train; 0 for a job that trains nothing.
        steps: Steps trained.
        records_done: Records trained, or read.
        records_expected: Records to train, or to read.
        seconds: Since the job's start, up to its end.
        seconds_left: `None` where nobody knows.
        examples_per_second: The present speed; of a job that has ended,
            that of its whole training.
        loss: The training loss; `None` before there is one.
        metrics: Training metrics.
        evaluation: Those of the newest evaluation.
        staleness_max: The largest staleness so far.
        staleness_mean: The mean staleness so far.
        tasks_waiting: Tasks of this epoch that nobody has.
        tasks_running: Tasks that workers have.
        workers: The workers; none of a job that has ended.
        shards: The shards.
        restarts: Restarts by role.
        message: What the job waits for.
        error: Why it failed.
    """

    job_dir: str
    running: bool
    phase: str
    epoch: int = 0
    num_epochs: int = 0
    steps: int = 0
    records_done: int = 0
    records_expected: int = 0
    seconds: float = 0.0
    seconds_left: float | None = None
    examples_per_second: float = 0.0
    loss: float | None = None
    metrics: _Values = dataclasses.field(default_factory=dict)
    evaluation: _Values = dataclasses.field(default_factory=dict)
    staleness_max: int = 0
    staleness_mean: float = 0.0
    tasks_waiting: int = 0
    tasks_running: int = 0
    workers: tuple[WorkerView, ...] = ()
    shards: tuple[ShardView, ...] = ()
    restarts: dict[str, int] = dataclasses.field(default_factory=dict)
    message: str = ""
    error: str = ""

    @property
    def slowest_worker(self) -> int | None:
        """Index of the worker that takes longest for a step, if it tells."""
        training = [w for w in self.workers if w.training and w.own_seconds]
        slowest = _largest(training, lambda worker: worker.own_seconds)
        return None if slowest is None else slowest.index

    @property
    def hottest_shard(self) -> int | None:
        """Index of the shard with most bytes to hand out and to take.

        The number of calls tells nothing: each batch asks every shard.
        """
        hottest = _largest(
            self.shards,
            lambda shard: (
                shard.pulled_bytes_per_second + shard.pushed_bytes_per_second
            ),
        )
        if hottest is None:
            hottest = _largest(
                self.shards, lambda each: each.pulled_bytes + each.pushed_bytes
            )
        return None if hottest is None else hottest.index

    def to_json(self) -> str:
        """Returns all of it as one JSON object."""
        raw = dataclasses.asdict(self)
        for shard in raw["shards"]:
            shard["tables"] = {
                name: {"rows": rows, "bytes": size}
                for name, (rows, size) in shard["tables"].items()
            }
        raw["slowest_worker"] = self.slowest_worker
        raw["hottest_shard"] = self.hottest_shard
        return strict_json.dumps(raw)


def of_description(
    job_dir: str, description: master_pb2.JobDescription
) -> JobView:
    """Returns what a master tells of its job.

    Args:
        job_dir: The job directory.
        description: What it tells.
    """
    status = description.status
    over = status.phase in FINAL_PHASES
    epoch = status.epoch if over else status.epoch + 1
    metrics: _Values = dict(status.metrics)
    # 0 until the first heartbeat that tells of steps.
    loss = metrics.pop("loss", status.loss or None)
    return JobView(
        job_dir=job_dir,
        running=not over,
        phase=status.phase,
        epoch=min(epoch, status.num_epochs),
        num_epochs=status.num_epochs,
        steps=status.steps,
        records_done=status.records_done,
        records_expected=status.records_expected,
        seconds=description.seconds,
        seconds_left=status.seconds_left if status.seconds_left >= 0 else None,
        examples_per_second=status.examples_per_second,
        loss=loss,
        metrics=metrics,
        evaluation=dict(status.evaluation),
        staleness_max=status.staleness_max,
        staleness_mean=status.staleness_mean,
        tasks_waiting=status.tasks_waiting,
        tasks_running=status.tasks_running,
        workers=tuple(map(_worker, description.workers)),
        shards=tuple(map(_shard, description.shards)),
        restarts=dict(description.restarts),
        message=status.message,
        error=status.error,
    )


def of_result(
    job_dir: str, result: Mapping[str, Any], *, num_epochs: int = 0
) -> JobView:
    """Returns what a job that has ended left in result.json.

    Args:
        job_dir: The job directory.
        result: What it holds; any key may be missing.
        num_epochs: Epochs that it was to train.
    """
    history = result.get("history") or [{}]
    metrics: _Values = dict(history[-1].get("values") or {})
    staleness = result.get("staleness") or {}
    trained = "records_trained" in result
    return JobView(
        job_dir=job_dir,
        running=False,
        phase=result.get("status", "stopped"),
        epoch=result.get("epochs", 0),
        num_epochs=num_epochs,
        steps=result.get("steps", 0),
        records_done=result.get(
            "records_trained" if trained else "records_read", 0
        ),
        records_expected=result.get("records_expected", 0),
        seconds=result.get("seconds", 0.0),
        seconds_left=0.0,
        examples_per_second=result.get("examples_per_second", 0.0),
        loss=metrics.pop("loss", None),
        metrics=metrics,
        evaluation=dict(result.get("evaluation") or {}),
        staleness_max=staleness.get("max", 0),
        staleness_mean=staleness.get("mean", 0.0),
        shards=tuple(
            _shard_of_result(index, raw)
            for index, raw in enumerate(result.get("shards") or ())
        ),
        restarts=dict(result.get("restarts") or {}),
        error=result.get("error", ""),
    )


def _worker(status: master_pb2.WorkerStatus) -> WorkerView:
    fields = dataclasses.fields(WorkerView)
    return WorkerView(**{f.name: getattr(status, f.name) for f in fields})


def _shard(load: master_pb2.ShardLoad) -> ShardView:
    status = load.status
    return ShardView(
        index=status.shard,
        version=status.version,
        rows=status.rows,
        bytes=status.bytes,
        tables={
            table.name: (table.rows, table.bytes) for table in status.tables
        },
        pulled_bytes=status.pulled_bytes,
        pushed_bytes=status.pushed_bytes,
        pulled_bytes_per_second=load.pulled_bytes_per_second,
        pushed_bytes_per_second=load.pushed_bytes_per_second,
        waiting_pulls=status.waiting_pulls,
        refused_pushes=status.refused_pushes,
        nonfinite_pushes=status.nonfinite_pushes,
    )


def _shard_of_result(index: int, raw: Mapping[str, Any]) -> ShardView:
    known = {field.name for field in dataclasses.fields(ShardView)}
    values = {name: raw[name] for name in raw if name in known}
    values["tables"] = {
        name: (table.get("rows", 0), table.get("bytes", 0))
        for name, table in raw.get("tables", {}).items()
    }
    return ShardView(**{**values, "index": index})


def _largest(
    shown: Sequence[_Shown], key: Callable[[_Shown], float]
) -> _Shown | None:
    """Returns the one that stands out; `None` if none does."""
    if len(shown) < 2:
        return None
    found = max(shown, key=key)
    return found if key(found) > min(map(key, shown)) else None
