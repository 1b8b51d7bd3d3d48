"""The pull thread: batches get the parameters that their steps read."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import ps_pb2
from elastic_keras.worker import items
from elastic_keras.worker.channel import Channel
from elastic_keras.worker.flow import Flow
from elastic_keras.worker.grouping import GroupedIds
from elastic_keras.worker.reservations import Leave, Reservations
from elastic_keras.worker.values import Pulled


class _Puller(Protocol):
    def __call__(
        self,
        ids: Sequence[GroupedIds],
        *,
        mode: int,
        member: int,
        step: int,
    ) -> Pulled: ...


class Puller:
    """Numbers steps and pulls for them, in order.

    The shards hold a pull back until the staleness bound allows it; the
    flow's window bounds how far ahead pulls are sent.

    Args:
        pull: Pulls from all shards.
        ready: Batches, and everything else that the main thread must see
            after them.
        flow: Where pulled batches go.
        reservations: Where steps are reserved; `None` if nothing counts
            them.
    """

    def __init__(
        self,
        *,
        pull: _Puller,
        ready: Channel[Any],
        flow: Flow,
        reservations: Reservations | None,
    ) -> None:
        self._pull = pull
        self._ready = ready
        self._flow = flow
        self._reservations = reservations
        self._member = 0
        self._step = 0

    def run(self) -> None:
        """Works until the channel or the flow is closed."""
        while True:
            item = self._ready.get()
            if isinstance(item, items.TrainBatch):
                self._train(item)
            elif isinstance(item, items.EndTraining):
                # No pull is under way while the main thread lets all land.
                self._wait_for(items.StopTraining)
            else:
                self._flow.put(item)

    def _train(self, train: items.TrainBatch) -> None:
        self._join_as(train.run.task.member)
        if not self._may_start(train):
            return
        self._flow.enter()
        train.run.begin()
        try:
            pulled = self._pull(
                train.batch.ids,
                mode=ps_pb2.TRAIN,
                member=self._member,
                step=self._step,
            )
        except RpcError as error:
            self._give_up(train)
            if not _has_left(error):
                raise
            if not train.run.dropped:
                self._flow.put_urgent(items.Lost())
            return
        self._flow.put(
            items.PulledBatch(train, self._member, self._step, pulled)
        )
        self._step += 1

    def _join_as(self, member: int) -> None:
        # Numbers only grow; a task that was fetched before a pause still
        # carries the one before.
        if member > self._member:
            self._member = member
            self._step = 0

    def _may_start(self, train: items.TrainBatch) -> bool:
        if self._reservations is None:
            return not train.run.dropped
        while not train.run.dropped:
            at_hand = 1 + self._ready.count(items.TrainBatch)
            leave, member = self._reservations.acquire(at_hand)
            self._join_as(member)
            if leave is Leave.STOP:
                self._wait_for(items.StopTraining)
            elif leave is Leave.EVALUATE:
                self._wait_for(items.Interrupt)
            elif train.run.dropped:
                self._reservations.settle(returned=1)
            else:
                return True
        self._reservations.give_back()
        return False

    def _wait_for(self, kind: Callable[[Callable[[], None]], Any]) -> None:
        over = threading.Event()
        self._flow.put(kind(over.set))
        over.wait()

    def _give_up(self, train: items.TrainBatch) -> None:
        train.run.landed()
        self._flow.leave()
        if self._reservations is not None:
            self._reservations.settle(returned=1)


def _has_left(error: RpcError) -> bool:
    """Whether a shard answered that this member is off the list."""
    return error.code == "ABORTED"
