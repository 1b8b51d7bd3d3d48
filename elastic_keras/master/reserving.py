"""Workers ask for leave to start steps."""

import collections
from collections.abc import Callable

from elastic_keras.master.changes import Changes
from elastic_keras.master.dispatch import Dispatch
from elastic_keras.wire.proto import master_pb2

# At most two calls of a worker are under way at a time.
_REMEMBERED = 8
_Replies = collections.OrderedDict[int, master_pb2.ReserveStepsReply]


class Reserving:
    """Grants steps out of the budget, to workers that train.

    Args:
        dispatch: The workers' side of the job.
        changes: Notified of changes.
        clock: Seconds, from any origin.
    """

    def __init__(
        self,
        dispatch: Dispatch,
        changes: Changes,
        clock: Callable[[], float],
    ) -> None:
        self._dispatch = dispatch
        self._budget = dispatch.budget
        self._gate = dispatch.gate
        self._changes = changes
        self._clock = clock
        self._replies: dict[int, _Replies] = {}

    async def reserve(
        self, request: master_pb2.ReserveStepsRequest, timeout: float
    ) -> master_pb2.ReserveStepsReply:
        """Settles a worker's steps and waits for leave to start more.

        Args:
            request: What the worker says; its call number makes a repeated
                call settle nothing and get the same steps.
            timeout: Most seconds to wait.

        Raises:
            Refused: NOT_FOUND: the worker is not known (any more).
        """
        dispatch, worker = self._dispatch, request.worker
        deadline = self._clock() + timeout
        dispatch.require(worker)
        replies = self._replies_of(worker)
        if not request.call or request.call not in replies:
            self._remember(request, master_pb2.ReserveStepsReply())
            self._budget.settle(
                worker, done=request.done, returned=request.returned
            )
            self._changes.notify()
        while True:
            dispatch.require(worker)
            given = replies.get(request.call)
            if given is not None and given.granted:
                return given
            if self._stops or not request.want:
                return self._flags()
            if dispatch.interrupting:
                self._pause(worker)
                return self._flags()
            granted = self._steps_for(worker, request.want)
            if granted:
                return await self._grant(request, granted, deadline)
            self._pause(worker)
            if self._blocks(worker):
                return master_pb2.ReserveStepsReply(stop=True)
            if not await self._changes.wait(deadline - self._clock()):
                return self._flags()

    def _flags(self) -> master_pb2.ReserveStepsReply:
        dispatch = self._dispatch
        return master_pb2.ReserveStepsReply(
            evaluate=dispatch.interrupting and not dispatch.over,
            stop=self._stops,
        )

    @property
    def _stops(self) -> bool:
        dispatch = self._dispatch
        return dispatch.stopping or dispatch.over or dispatch.end is not None

    def _steps_for(self, worker: int, want: int) -> int:
        training = self._dispatch.training
        if training is None or not training.holds(worker):
            return 0
        return self._budget.grant(
            worker,
            want,
            num_workers=self._dispatch.membership.alive,
            # A task that it holds beyond this one is not begun.
            task=training.keys(worker)[0],
        )

    def _blocks(self, worker: int) -> bool:
        """Whether a worker that waits holds up steps kept for a task.

        All that is left is kept for tasks that a lost worker left
        half-pushed. Someone has to take one of them up first: this worker
        hands back what it has, and is given such a task.
        """
        training, budget = self._dispatch.training, self._budget
        if training is None or not budget.owed or budget.available:
            return False
        if budget.asks_ledgers or budget.held or not training.holds(worker):
            return False
        begun = {
            training.keys(other.number)[0]
            for other in self._dispatch.membership.workers
            if training.holds(other.number)
        }
        return not (begun & budget.owed or budget.outstanding(worker))

    def _trains(self, worker: int) -> bool:
        training = self._dispatch.training
        return training is not None and training.holds(worker)

    async def _grant(
        self,
        request: master_pb2.ReserveStepsRequest,
        granted: int,
        deadline: float,
    ) -> master_pb2.ReserveStepsReply:
        worker = request.worker
        member = self._gate.enter(worker)
        told = False
        try:
            told = await self._gate.told(deadline)
        finally:
            if not told:
                # Nobody has seen the steps: they go back.
                self._budget.settle(worker, done=0, returned=granted)
                self._pause(worker)
                self._changes.notify()
        if not told:
            return self._flags()
        reply = master_pb2.ReserveStepsReply(granted=granted, member=member)
        self._remember(request, reply)
        return reply

    def _pause(self, worker: int) -> None:
        if self._trains(worker) and not self._budget.outstanding(worker):
            self._gate.pause(worker)

    def _replies_of(self, worker: int) -> _Replies:
        # Workers that are gone take their replies along.
        for number in list(self._replies):
            if self._dispatch.membership.get(number) is None:
                del self._replies[number]
        return self._replies.setdefault(worker, collections.OrderedDict())

    def _remember(
        self,
        request: master_pb2.ReserveStepsRequest,
        reply: master_pb2.ReserveStepsReply,
    ) -> None:
        replies = self._replies.get(request.worker)
        if request.call and replies is not None:
            replies[request.call] = reply
            while len(replies) > _REMEMBERED:
                replies.popitem(last=False)
