"""What workers get, and what becomes of what they say."""

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Collection, Iterator

from elastic_keras.master.changes import Changes
from elastic_keras.master.member_gate import MemberGate
from elastic_keras.master.membership import WorkerInfo
from elastic_keras.master.outcome import JobEnd, failed
from elastic_keras.master.steps import StepBudget, TaskKey
from elastic_keras.master.task_queue import TaskQueue
from elastic_keras.master.tasks import TrainingTasks
from elastic_keras.master.work import MAX_FAILURES, Counts, Lease, WorkItem
from elastic_keras.wire.errors import Refused, WireError
from elastic_keras.wire.proto import master_pb2

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Answer:
    """The answer to a worker that asks for a task.

    Args:
        kind: The `master_pb2.TaskKind`.
        lease: What is handed out, where something is.
        member: For training: whose clock its steps count on; 0 for a worker
            that gets its number with the next steps granted to it.
    """

    kind: int
    lease: Lease | None = None
    member: int = 0


class Dispatch:
    """The workers' side of a job: tasks, members, steps, reports.

    `JobFlow` decides what there is to do; this hands it out. Where a call
    waits, it waits for a change of this state, never for the clock.

    Args:
        gate: The workers, and which of them are members.
        budget: Which steps may start.
        changes: Notified after every change.
        leases: Where lease numbers come from.
        clock: Seconds, for heartbeats.
    """

    def __init__(
        self,
        *,
        gate: MemberGate,
        budget: StepBudget,
        changes: Changes,
        leases: Iterator[int],
        clock: Callable[[], float],
    ) -> None:
        self.gate = gate
        self.membership = gate.membership
        self.budget = budget
        self.training: TrainingTasks | None = None
        # Evaluation, merge and callback tasks.
        self.side = TaskQueue(leases)
        # Only side tasks are handed out: the parameters rest.
        self.interrupting = False
        # No further step starts.
        self.stopping = False
        # A callback wants training to end, within the epoch.
        self.stop_wanted = False
        self.over = False
        self.end: JobEnd | None = None
        self.on_states: Callable[[WorkItem, master_pb2.MetricStates], None] = (
            lambda item, states: None
        )
        # Unfinished tasks of lost workers, in which shards may differ.
        self.lost_tasks: set[TaskKey] = set()
        # When the first training task was handed out.
        self.began: float | None = None
        # Processes of workers by index that a former master knew, and that
        # may still have steps under way.
        self.former: dict[int, int] = {}
        self._changes = changes
        self._clock = clock
        self._answers: dict[tuple[int, bool], tuple[int, Answer]] = {}

    def join(
        self, index: int, *, has_callbacks: bool, pid: int = 0
    ) -> WorkerInfo:
        """Takes a worker in; one of the same index is lost by that."""
        former = next(
            (w for w in self.membership.workers if w.index == index), None
        )
        if former is not None:
            self.lose(former.number, "its index was joined again")
        self.former.pop(index, None)
        worker, _ = self.membership.join(
            index, self._clock(), has_callbacks=has_callbacks, pid=pid
        )
        _LOGGER.info("Worker %d joined as %d", index, worker.number)
        self._changes.notify()
        return worker

    def restore(self, tasks: Collection[TaskKey], handled: int) -> None:
        """Goes on after another master.

        Args:
            tasks: Tasks that are begun and not done, as far as is known.
            handled: See `StepBudget.restore`.
        """
        self.lost_tasks.update(tasks)
        self.budget.restore(handled)

    def beat(self, worker: int) -> bool:
        """Takes a sign of life.

        Returns:
            Whether the worker is known.
        """
        self.membership.seen(worker, self._clock())
        return self.membership.get(worker) is not None

    def lose_silent(self) -> None:
        """Loses the workers that have been silent for too long."""
        for worker in self.membership.expired(self._clock()):
            self.lose(worker.number, "no heartbeat")

    def lose_process(self, index: int, pid: int) -> None:
        """Loses the worker whose process the launcher saw dying.

        Args:
            index: The worker's index.
            pid: The process; a later one of the same index stays.
        """
        if self.former.get(index) == pid:
            del self.former[index]
            self._changes.notify()
        for worker in self.membership.workers:
            if (worker.index, worker.pid) == (index, pid):
                self.lose(worker.number, "its process died")

    def lose(self, worker: int, reason: str) -> None:
        """Takes back all that a worker has; it is gone."""
        info = self.membership.get(worker)
        if info is None:
            return
        items = self.side.lose(worker)
        if self.training is not None:
            self.lost_tasks.update(self.training.keys(worker))
            items += self.training.lose(worker)
        self.budget.lose(worker)
        self.gate.lose(worker)
        for interrupted in (False, True):
            self._answers.pop((worker, interrupted), None)
        _LOGGER.info(
            "Worker %d is gone (%s); %d tasks go to others",
            info.index,
            reason,
            len(items),
        )
        self._changes.notify()

    def fail(self, end: JobEnd) -> None:
        """Ends the job, unless it has ended."""
        if self.end is None and not self.over:
            self.end = end
            self._changes.notify()

    def stop_training(self) -> None:
        """Lets no further step start: a callback wants training to end."""
        if not self.stop_wanted:
            self.stop_wanted = self.stopping = True
            self._changes.notify()

    async def get_task(
        self, worker: int, *, interrupted: bool, call: int, timeout: float
    ) -> Answer:
        """Waits for something that a worker may do.

        Args:
            worker: Who asks.
            interrupted: It waits for steps and would evaluate meanwhile.
            call: Number of the call; a repeated one gets its answer again.
            timeout: Most seconds to wait.

        Returns:
            The answer; of kind TASK_WAIT where the time ran out, or where
            what interrupted the worker is over.

        Raises:
            Refused: NOT_FOUND: the worker is not known (any more).
        """
        deadline = self._clock() + timeout
        while True:
            self.require(worker)
            if (given := self._repeated(worker, interrupted, call)) is not None:
                return given
            if self.over:
                return Answer(master_pb2.TASK_STOP)
            lease = self._take(worker, interrupted)
            if lease is not None:
                answer = await self._hand_out(worker, lease, deadline)
                if answer.lease is not None:
                    self._answers[worker, interrupted] = (call, answer)
                return answer
            if interrupted and not self.interrupting and self.end is None:
                return Answer(master_pb2.TASK_WAIT)
            if not await self._changes.wait(deadline - self._clock()):
                return Answer(master_pb2.TASK_WAIT)

    def report(self, request: master_pb2.ReportTaskRequest) -> None:
        """Takes a worker's report; one of an old lease is ignored.

        Args:
            request: What the worker says.

        Raises:
            Refused: NOT_FOUND: the worker is not known (any more).
        """
        worker = request.worker
        self.require(worker)
        lease = self.side.find(request.lease, worker)
        training = None
        if lease is None and self.training is not None:
            training = self.training
            lease = training.find(request.lease, worker)
        if lease is None:
            return
        queue = self.side if training is None else training
        if request.released:
            queue.release(lease)
            if self.stopping and request.states.metrics:
                # Nobody goes on with it: these are its batches.
                self._add_states(lease.item, request.states)
        elif request.error:
            queue.fail(lease)
            self._failed(lease.item, request)
        else:
            self._finished(lease, request)
        key = (lease.item.epoch, lease.item.task)
        came_back = training is not None and key in self.lost_tasks
        if came_back and not self.stopping:
            self.budget.ask()
        self._check_idle(worker)
        self._changes.notify()

    def require(self, worker: int) -> WorkerInfo:
        """Returns a worker that has called; it is alive.

        Args:
            worker: Its number.

        Raises:
            Refused: NOT_FOUND: the worker is not known (any more).
        """
        info = self.membership.get(worker)
        if info is None:
            raise Refused(
                "NOT_FOUND",
                "The job does not count on this worker any more; it joins "
                f"again. Received: worker={worker}",
            )
        self.membership.seen(worker, self._clock())
        return info

    def _repeated(
        self, worker: int, interrupted: bool, call: int
    ) -> Answer | None:
        known, answer = self._answers.get(
            (worker, interrupted), (0, Answer(master_pb2.TASK_WAIT))
        )
        if not call or known != call or answer.lease is None:
            return None
        number = answer.lease.number
        if self.side.find(number, worker):
            return answer
        if self.training is not None and self.training.find(number, worker):
            return answer
        return None

    def _take(self, worker: int, interrupted: bool) -> Lease | None:
        if self.end is not None:
            # The result is being written; then everyone is told to stop.
            return None
        trains = self.training is not None and self.training.holds(worker)
        if interrupted or not trains:
            lease = self.side.take(worker, lambda i: self._may(worker, i))
            if lease is not None:
                return lease
        if interrupted or self.interrupting or self.stopping:
            return None
        if self.training is None:
            return None
        return self.training.take(worker, first=self.budget.owed)

    def _may(self, worker: int, item: WorkItem) -> bool:
        chief = worker == self.membership.chief
        return chief or item.kind != master_pb2.TASK_CALLBACK

    async def _hand_out(
        self, worker: int, lease: Lease, deadline: float
    ) -> Answer:
        item = lease.item
        if item.kind != master_pb2.TASK_TRAIN:
            return Answer(item.kind, lease)
        assert self.training is not None
        # A worker that waits for steps gets its number with them.
        paused = self.gate.is_paused(worker)
        member = 0 if paused else self.gate.enter(worker)
        told = False
        try:
            told = await self.gate.told(deadline)
        finally:
            if not told and self.training.find(lease.number, worker):
                self.training.release(lease)
                self._check_idle(worker)
                self._changes.notify()
        if self.training.find(lease.number, worker):
            if self.began is None:
                self.began = self._clock()
            return Answer(item.kind, lease, member)
        return Answer(master_pb2.TASK_WAIT)

    def _check_idle(self, worker: int) -> None:
        if self.training is None or not self.training.holds(worker):
            self.gate.leave(worker)

    def _finished(
        self, lease: Lease, request: master_pb2.ReportTaskRequest
    ) -> None:
        item = lease.item
        self._add_states(item, request.states)
        item.result = request.result
        item.records = request.records
        item.bad_records = request.bad_records
        item.examples = request.examples
        if item.kind != master_pb2.TASK_TRAIN:
            self.side.finish(lease)
            return
        assert self.training is not None
        counts = Counts(
            records=request.records,
            examples=request.examples,
            bad_records=request.bad_records,
            batches=request.batches,
        )
        self.training.finish(lease, counts)
        self.budget.forgive((item.epoch, item.task))
        self.lost_tasks.discard((item.epoch, item.task))

    def _add_states(
        self, item: WorkItem, states: master_pb2.MetricStates
    ) -> None:
        try:
            self.on_states(item, states)
        except WireError as error:
            self.fail(failed(f"Metric states do not add up: {error}"))

    def _failed(
        self, item: WorkItem, request: master_pb2.ReportTaskRequest
    ) -> None:
        # A callback's hook has effects: it is not run again.
        once = request.fatal or item.kind == master_pb2.TASK_CALLBACK
        if once or item.failures >= MAX_FAILURES:
            self.fail(failed(request.error, request.exit_code or 1))
            return
        with contextlib.suppress(IndexError):
            last = request.error.strip().splitlines()[-1]
            _LOGGER.warning(
                "A task failed (%d of %d): %s",
                item.failures,
                MAX_FAILURES,
                last,
            )
