"""One pass over a dataset, through a worker's pipeline."""

import threading
from collections.abc import Callable
from typing import Any

from elastic_keras.wire.proto import master_pb2


class OneTask:
    """Stands for the master in a pass: the whole dataset is one task.

    Args:
        task: The task's number, new for each pass.
        epoch: The epoch.
        member: The worker's member number.
        leave: Takes that number away. Steps that were pulled for and will
            not be pushed would hold those after them back for ever.
    """

    def __init__(
        self,
        *,
        task: int,
        epoch: int,
        member: int,
        leave: Callable[[], object],
    ) -> None:
        self._leave = leave
        self._task = master_pb2.Task(
            kind=master_pb2.TASK_TRAIN,
            task=task,
            epoch=epoch,
            lease=1,
            member=member,
        )
        self._given = False
        self._reported = threading.Event()
        # What the task came to; empty before.
        self.done = master_pb2.ReportTaskRequest()

    def get_task(self, *, interrupted: bool = False) -> master_pb2.Task:
        """Gives the task, then waits for its report and ends the pass."""
        if not self._given:
            self._given = True
            return self._task
        self._reported.wait()
        return master_pb2.Task(kind=master_pb2.TASK_STOP)

    def report(self, request: master_pb2.ReportTaskRequest) -> None:
        """Takes the task's one report."""
        self.done = request
        if request.error or request.released:
            self._leave()
        self._reported.set()

    def stop_training(self) -> None:
        """Has nothing to tell anyone: the pipeline itself stops."""


class Failure:
    """Keeps what the user's code raised, to raise it again."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def describe(self, error: BaseException) -> dict[str, Any]:
        """Takes an exception; returns what a report says of it."""
        self.error = error
        return {"error": repr(error), "fatal": True}
