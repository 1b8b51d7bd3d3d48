"""The data thread: tasks become batches with their ids found."""

import contextlib
import threading
from collections.abc import Callable, Collection, Generator
from typing import Any, Protocol

from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker import items
from elastic_keras.worker.channel import Channel
from elastic_keras.worker.task_run import TaskRun


class TaskData(Protocol):
    """A task's batches, and what was read for them."""

    def batches(self) -> Generator[items.Batch, None, None]:
        """Makes the batches."""

    def report(self) -> master_pb2.ReportTaskRequest:
        """Returns what the report of the task counts, once all was read."""


class Feeder:
    """Asks for tasks and makes their batches, ahead of the steps.

    The next task is asked for when a task's data is over, while its last
    batches are still being trained.

    Args:
        get_task: Asks the master; may return `TASK_WAIT`.
        open_data: Opens a training task's data.
        progress: Tells which batches of a task every shard has.
        report: Sends a report to the master.
        ready: Where batches and everything else go, in order.
    """

    def __init__(
        self,
        *,
        get_task: Callable[[], master_pb2.Task],
        open_data: Callable[[master_pb2.Task], TaskData],
        progress: Callable[[master_pb2.Task], Collection[int]],
        report: Callable[[master_pb2.ReportTaskRequest], None],
        ready: Channel[Any],
    ) -> None:
        self._get_task = get_task
        self._open_data = open_data
        self._progress = progress
        self._report = report
        self._ready = ready
        self._lock = threading.Lock()
        self._held: list[TaskRun] = []
        self._spent_member = 0
        self._stopped = False

    def run(self) -> None:
        """Works until the job is over or the channel is closed."""
        while not self._ready.closed:
            task = self._get_task()
            if task.kind == master_pb2.TASK_WAIT:
                continue
            if task.kind == master_pb2.TASK_STOP:
                self._ready.put(items.JobOver())
                return
            if task.kind == master_pb2.TASK_TRAIN:
                self._train(task)
            else:
                self._pass_on(task)

    def stop_training(self) -> None:
        """Lets no further batch be trained, from any thread.

        The tasks held are dropped without a report, so that what is under
        way may land before `drop_all` hands them back; a task that still
        comes is handed back at once.
        """
        with self._lock:
            self._stopped = True
            held = list(self._held)
        for run in held:
            run.drop()

    def drop_all(self, give_up: Callable[[TaskRun], None]) -> None:
        """Drops every training task held, and their member's number.

        A step that was pulled but will never be pushed leaves a gap in the
        member's clock, so a task that still comes under the same member is
        handed back at once.

        Args:
            give_up: How to drop one.
        """
        with self._lock:
            held = list(self._held)
            if held:
                self._spent_member = held[-1].task.member
        for run in held:
            give_up(run)

    def _train(self, task: master_pb2.Task) -> None:
        run = TaskRun(task, self._report)
        with self._lock:
            spent = task.member != 0 and task.member == self._spent_member
            unwanted = spent or self._stopped
            if not unwanted:
                self._held = [r for r in self._held if not r.reported]
                self._held.append(run)
        if unwanted:
            run.release()
            return
        try:
            done = self._make_batches(run)
        except _UserCode as error:
            self._ready.put(items.TaskError(run, error.cause))
            return
        if done is not None:
            self._ready.put(items.TaskEnd(run, done))

    def _make_batches(
        self, run: TaskRun
    ) -> master_pb2.ReportTaskRequest | None:
        known: Collection[int] = ()
        if run.task.resumed:
            known = self._progress(run.task)
        with _user_code():
            data = self._open_data(run.task)
            batches = data.batches()
        count = examples = 0
        with contextlib.closing(batches):
            while not run.dropped:
                with _user_code():
                    batch = next(batches, None)
                if batch is None:
                    break
                if count not in known:
                    self._ready.put(items.TrainBatch(run, count, batch))
                count += 1
                examples += batch.examples
        if run.dropped:
            return None
        report = data.report()
        report.batches = count
        report.examples = examples
        return report

    def _pass_on(self, task: master_pb2.Task) -> None:
        over = threading.Event()
        self._ready.put(items.OtherTask(task, over.set))
        over.wait()


class _UserCode(Exception):  # noqa: N818 - carries the user's exception
    def __init__(self, cause: BaseException) -> None:
        super().__init__()
        self.cause = cause


class _user_code:  # noqa: N801 - reads as a statement
    """Tells exceptions of the user's code from those of our own calls."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: object, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, Exception):
            raise _UserCode(error) from error
