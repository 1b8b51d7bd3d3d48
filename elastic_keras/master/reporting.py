"""A job's points in TensorBoard."""

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from tensorboard.compat.proto import summary_pb2

from elastic_keras.master import view
from elastic_keras.master.stats import Latency
from elastic_keras.monitoring.layout import layout

if TYPE_CHECKING:
    from elastic_keras.master.job import Job

_LOGGER = logging.getLogger(__name__)


class Writer(Protocol):
    """What this needs of `monitoring.summaries.SummaryWriter`."""

    def scalars(self, values: dict[str, float], step: int) -> None:
        """Adds points."""

    def histogram_counts(self, tag: str, counts: list[int], step: int) -> None:
        """Adds a histogram."""

    def text(self, tag: str, text: str, step: int) -> None:
        """Adds a text."""

    def add(self, summary: summary_pb2.Summary, step: int) -> None:
        """Adds a summary that was made elsewhere."""

    def flush(self) -> None:
        """Brings all to the file."""


class Reporting:
    """Writes what a job does every few seconds, and at its end.

    Args:
        job: The job.
        writer: Where points go.
        seconds: Pause between points.
    """

    def __init__(self, job: "Job", writer: Writer, seconds: float) -> None:
        self._job = job
        self._writer = writer
        self._seconds = seconds
        self._evaluations = 0
        self._epochs = 0
        self._last = job.now
        self._metrics: set[str] | None = None

    async def run(self) -> None:
        """Writes until it is cancelled."""
        self._writer.text(
            "config", f"```json\n{self._job.config.to_json()}\n```", 0
        )
        while True:
            await asyncio.sleep(self._seconds)
            self.write()

    def write(self) -> None:
        """Writes the present state; a full disk does not end the job."""
        try:
            self._write()
        except OSError as error:
            _LOGGER.warning("Points for TensorBoard are lost: %s", error)

    def _write(self) -> None:
        job = self._job
        step = view.steps(job)
        status = job.status()
        now = job.now
        elapsed = max(now - self._last, 1e-3)
        self._last = now
        values = {
            "tasks/waiting": float(status.tasks_waiting),
            "tasks/running": float(status.tasks_running),
            "members/workers": float(status.workers_alive),
            "members/training": float(len(job.membership.members)),
            # From 1, as the progress line has it.
            "train/epoch": float(status.epoch + 1),
            "train/records": float(status.records_done),
        }
        values.update(self._training(elapsed))
        values.update(
            (f"train/{name}", value)
            for name, value in job.stats.metrics.items()
        )
        values.update(self._shards())
        self._writer.scalars(values, step)
        histogram = list(job.monitor.staleness.histogram)
        if histogram:
            self._writer.histogram_counts("staleness", histogram, step)
        self._points()
        self._page(step)
        self._writer.flush()

    def _training(self, elapsed: float) -> dict[str, float]:
        taken = self._job.stats.take()
        values: dict[str, float] = {}
        speed, steps_per_second, loss = 0.0, 0.0, 0.0
        steps = 0
        pull, push = Latency(), Latency()
        for index, interval in sorted(taken.items()):
            seconds = interval.seconds or elapsed
            own_speed = interval.examples / seconds
            values[f"speed/worker_{index}/examples_per_second"] = own_speed
            speed += own_speed
            steps_per_second += interval.steps / seconds
            steps += interval.steps
            loss += interval.loss_sum
            _join(pull, interval.pull)
            _join(push, interval.push)
        if not steps:
            # A chart over steps shows the last point of each step: a pause
            # for an evaluation would hide the speed before it.
            return {}
        values["speed/examples_per_second"] = speed
        values["speed/steps_per_second"] = steps_per_second
        values["train/loss"] = loss / steps
        values.update(_latency("pull", pull, elapsed))
        values.update(_latency("push", push, elapsed))
        return values

    def _shards(self) -> dict[str, float]:
        values: dict[str, float] = {}
        staleness = self._job.monitor.staleness
        if staleness.histogram:
            values["staleness/max"] = float(staleness.max)
            values["staleness/mean"] = staleness.mean
        for status in self._job.monitor.statuses:
            prefix = f"shard_{status.shard}"
            values[f"{prefix}/rows"] = float(status.rows)
            values[f"{prefix}/bytes"] = float(status.bytes)
            values[f"{prefix}/version"] = float(status.version)
            values[f"{prefix}/waiting_pulls"] = float(status.waiting_pulls)
            values[f"{prefix}/refused_pushes"] = float(status.refused_pushes)
            values[f"{prefix}/nonfinite_pushes"] = float(
                status.nonfinite_pushes
            )
            values[f"{prefix}/learning_rate"] = status.learning_rate
            for table in status.tables:
                for tag in (f"{prefix}/tables", "tables"):
                    rows, size = (
                        f"{tag}/{table.name}/rows",
                        f"{tag}/{table.name}/bytes",
                    )
                    values[rows] = values.get(rows, 0.0) + table.rows
                    values[size] = values.get(size, 0.0) + table.bytes
        return values

    def _page(self, step: int) -> None:
        """Writes the page of charts anew once there are other metrics."""
        job = self._job
        names = set(job.stats.metrics) | set(job.history.evaluation)
        if job.history.epochs:
            names |= set(job.history.epochs[-1].values)
        if self._metrics is None or not names <= self._metrics:
            self._metrics = names | (self._metrics or set())
            self._writer.add(layout(self._metrics), step)

    def _points(self) -> None:
        history = self._job.history
        for point in history.evaluations[self._evaluations :]:
            self._writer.scalars(
                {f"evaluation/{k}": v for k, v in point.values.items()},
                point.step,
            )
        self._evaluations = len(history.evaluations)
        for point in history.epochs[self._epochs :]:
            self._writer.scalars(
                {f"epoch/{k}": v for k, v in point.values.items()},
                point.step,
            )
        self._epochs = len(history.epochs)


def _join(total: Latency, other: Latency) -> None:
    total.count += other.count
    total.seconds += other.seconds
    total.max_seconds = max(total.max_seconds, other.max_seconds)
    total.bytes += other.bytes


def _latency(name: str, calls: Latency, elapsed: float) -> dict[str, float]:
    if not calls.count:
        return {}
    return {
        f"{name}/milliseconds": 1e3 * calls.seconds / calls.count,
        f"{name}/milliseconds_max": 1e3 * calls.max_seconds,
        f"{name}/bytes": calls.bytes / calls.count,
        f"{name}/bytes_per_second": calls.bytes / elapsed,
    }
