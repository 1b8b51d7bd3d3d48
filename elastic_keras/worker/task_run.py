"""A training task while this worker has it."""

import threading
from collections.abc import Callable

from elastic_keras.wire.proto import master_pb2


class TaskRun:
    """One handing-out of a training task, from its receipt to its report.

    Batches begin and land in different threads; the task is reported as done
    once it has ended and every batch that began has landed. There is one
    report at most.

    Args:
        task: What the master handed out.
        report: Sends a report.
    """

    def __init__(
        self,
        task: master_pb2.Task,
        report: Callable[[master_pb2.ReportTaskRequest], None],
    ) -> None:
        self.task = task
        self._report = report
        self._lock = threading.Lock()
        self._under_way = 0
        self._done: master_pb2.ReportTaskRequest | None = None
        self._reported = False
        self._dropped = False

    @property
    def dropped(self) -> bool:
        """Whether no further batch of it shall be trained."""
        return self._dropped

    @property
    def reported(self) -> bool:
        """Whether the master has (or needs) no more word of it."""
        return self._reported

    def key(self, batch: int) -> tuple[int, int, int]:
        """Returns a batch's identity in the shards' ledgers."""
        return self.task.epoch, self.task.task, batch

    def begin(self) -> None:
        """Counts a batch that will be pushed."""
        with self._lock:
            self._under_way += 1

    def landed(self) -> None:
        """Counts a batch that every shard has (or that was given up)."""
        with self._lock:
            self._under_way -= 1
        self._report_if_done()

    def end(self, done: master_pb2.ReportTaskRequest) -> None:
        """Says that no batch follows.

        Args:
            done: The report to send once all batches have landed.
        """
        with self._lock:
            self._done = done
        self._report_if_done()

    def fail(
        self, error: str, *, fatal: bool = False, exit_code: int = 1
    ) -> None:
        """Drops the task and reports the user's exception.

        Args:
            error: The traceback.
            fatal: Trying again makes no sense.
            exit_code: Of a fatal error: the job's exit code.
        """
        self._give_up(
            master_pb2.ReportTaskRequest(
                error=error, fatal=fatal, exit_code=exit_code if fatal else 0
            )
        )

    def drop(self) -> None:
        """Lets no further batch of it be trained; a report follows.

        A task whose batches are all computed stays: it is done soon.
        """
        with self._lock:
            self._dropped = self._done is None

    def release(self, states: master_pb2.MetricStates | None = None) -> None:
        """Drops the task and hands it back, which is no failure.

        Args:
            states: The metrics' states of its batches that were trained,
                for a master that gives it to nobody else.
        """
        self._give_up(
            master_pb2.ReportTaskRequest(released=True, states=states)
        )

    def abandon(self) -> None:
        """Drops the task without a report: the master gave it to another."""
        with self._lock:
            self._dropped = self._reported = True

    def _give_up(self, report: master_pb2.ReportTaskRequest) -> None:
        with self._lock:
            self._dropped = True
            if self._reported:
                return
            self._reported = True
        self._send(report)

    def _report_if_done(self) -> None:
        with self._lock:
            if self._reported or self._done is None or self._under_way:
                return
            if self._dropped:
                # Some of what landed was given up.
                return
            self._reported = True
            report = self._done
        self._send(report)

    def _send(self, report: master_pb2.ReportTaskRequest) -> None:
        report.lease = self.task.lease
        self._report(report)
