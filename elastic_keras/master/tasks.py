"""The training tasks of a job, epoch after epoch."""

import base64
import collections
import dataclasses
import hashlib
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from elastic_keras.config import ConfigError
from elastic_keras.master import seeds
from elastic_keras.master.steps import TaskKey
from elastic_keras.master.task_queue import TaskQueue
from elastic_keras.master.work import Counts, Lease, WorkItem
from elastic_keras.wire.proto import master_pb2

if TYPE_CHECKING:
    from elastic_keras.data.reader import RecordRange


class TrainingTasks:
    """Every record of every epoch, in tasks that are handed out until done.

    The order of an epoch's tasks and the seed of each task's own shuffle are
    pure functions of (seed, epoch, task). Tasks of the next epoch follow at
    once where `allow` permits it.

    Args:
        ranges: The data; a task's number is its range's position here.
        num_epochs: Passes over the data.
        seed: The job's seed.
        shuffle: Whether tasks, and records in a task, are shuffled.
        leases: Where lease numbers come from.
    """

    def __init__(
        self,
        ranges: Sequence["RecordRange"],
        *,
        num_epochs: int,
        seed: int,
        shuffle: bool,
        leases: Iterator[int],
    ) -> None:
        self._ranges = ranges
        self._num_epochs = num_epochs
        self._seed = seed
        self._shuffle = shuffle
        self._queue = TaskQueue(leases)
        self._epoch = -1
        self._allowed = -1
        self._order: Iterator[WorkItem] = iter(())
        self._unstarted = 0
        self._dropped = False
        # Tasks in the order that a former master had begun.
        self._restored = 0
        # Tasks of each begun epoch that are not done.
        self._left: dict[int, int] = {}
        self._counts: dict[int, Counts] = collections.defaultdict(Counts)
        # Reports of tasks that are done, to this object.
        self.finished = 0
        # Of each begun epoch with tasks left, which are done: 1 a task.
        self._done: dict[int, bytearray] = {}

    @property
    def num_tasks(self) -> int:
        """Tasks in an epoch."""
        return len(self._ranges)

    @property
    def records_per_epoch(self) -> int:
        """Records in the data."""
        return sum(r.count for r in self._ranges)

    @property
    def waiting(self) -> int:
        """Tasks of the begun epochs that nobody has."""
        return self._queue.waiting + self._unstarted

    @property
    def running(self) -> int:
        """Tasks under a lease."""
        return self._queue.running

    @property
    def epoch(self) -> int:
        """The oldest begun epoch with tasks left; else the newest one."""
        open_epochs = [e for e, left in self._left.items() if left]
        return min(open_epochs, default=max(self._epoch, 0))

    @property
    def epochs_done(self) -> int:
        """Number of epochs of which every task is done."""
        return sum(not left for left in self._left.values())

    def allow(self, epoch: int) -> None:
        """Permits tasks of all epochs up to and including this one."""
        self._allowed = max(self._allowed, min(epoch, self._num_epochs - 1))

    def take(
        self, worker: int, first: Collection[TaskKey] = ()
    ) -> Lease | None:
        """Hands a worker the next task.

        Args:
            worker: Who gets it.
            first: Tasks that come before all others.

        Returns:
            The lease, or `None` where no task may be handed out now.
        """
        if first:
            # Those of a former master's may still be far down the order.
            while self._restored:
                self._refill()
            lease = self._queue.take(
                worker, lambda item: (item.epoch, item.task) in first
            )
            if lease is not None:
                return lease
        if not self._queue.waiting:
            self._refill()
        return self._queue.take(worker)

    def find(self, number: int, worker: int) -> Lease | None:
        """Returns the running lease, if it is this worker's."""
        return self._queue.find(number, worker)

    def holds(self, worker: int) -> bool:
        """Returns whether the worker has a training task."""
        return self._queue.holds(worker)

    def keys(self, worker: int) -> list[TaskKey]:
        """Returns the tasks that a worker has, in the order it got them."""
        return [(i.epoch, i.task) for i in self._queue.items(worker)]

    def finish(self, lease: Lease, counts: Counts) -> None:
        """Takes a report that a task is done."""
        self._queue.finish(lease)
        epoch = lease.item.epoch
        self.finished += 1
        self._left[epoch] -= 1
        self._done[epoch][lease.item.task] = 1
        if not self._left[epoch]:
            del self._done[epoch]
        self._counts[epoch].add(counts)

    def fail(self, lease: Lease) -> None:
        """Takes a report that a task raised the user's exception."""
        self._queue.fail(lease)
        self._forget_dropped()

    def release(self, lease: Lease) -> None:
        """Takes a task back; it is handed out next."""
        self._queue.release(lease)
        self._forget_dropped()

    def lose(self, worker: int) -> list[WorkItem]:
        """Takes back all tasks of a worker that is gone."""
        items = self._queue.lose(worker)
        self._forget_dropped()
        return items

    def drop(self) -> None:
        """Hands nothing out any more: the job ends before its last epoch."""
        self._dropped = True
        self._order = iter(())
        self._unstarted = self._restored = 0
        self._forget_dropped()

    def epoch_done(self, epoch: int) -> bool:
        """Returns whether all tasks of an epoch are done."""
        if self._dropped:
            return not self._queue.running
        return not self._left.get(epoch, 1)

    def counts(self, epoch: int | None = None) -> Counts:
        """Returns what the finished tasks came to.

        Args:
            epoch: The epoch; `None` for all of them together.
        """
        if epoch is not None:
            return self._counts[epoch]
        total = Counts()
        for counts in self._counts.values():
            total.add(counts)
        return total

    def undone(self) -> list[TaskKey]:
        """Returns the tasks of the begun epochs that are not done."""
        return [
            (epoch, task)
            for epoch, done in sorted(self._done.items())
            for task in range(self.num_tasks)
            if not done[task]
        ]

    def to_state(self) -> dict[str, Any]:
        """Returns which tasks are done, as plain data."""
        return {
            "data": self._fingerprint(),
            "seed": self._seed,
            "epochs": [
                {
                    "epoch": epoch,
                    "counts": dataclasses.asdict(self._counts[epoch]),
                    "done": _pack(self._done.get(epoch)),
                }
                for epoch in sorted(self._left)
            ],
        }

    def restore(self, state: Mapping[str, Any] | None, begun: int) -> None:
        """Goes on where another object was; call it before anything else.

        Tasks that are not done count as handed out before: the shards know
        which of their batches are trained.

        Args:
            state: What its `to_state` returned, at the end or some time
                before; `None` where nothing was written down.
            begun: The newest epoch that the shards know of; -1 for none.

        Raises:
            ConfigError: It is of other data, or of another seed.
        """
        known = {}
        if state is not None:
            self._check(state)
            known = {raw["epoch"]: raw for raw in state["epochs"]}
        orders = []
        for epoch in range(max([begun, *known]) + 1):
            raw = known.get(epoch)
            done = bytearray(self.num_tasks)
            if raw is not None:
                done = _unpack(raw["done"], self.num_tasks)
                self._counts[epoch] = Counts(**raw["counts"])
            self._epoch = epoch
            self._left[epoch] = self.num_tasks - sum(done)
            if self._left[epoch]:
                self._done[epoch] = done
                orders.append(self._resumed(epoch, done))
        self._unstarted = self._restored = sum(self._left.values())
        self._order = itertools.chain.from_iterable(orders)

    def _check(self, state: Mapping[str, Any]) -> None:
        if (state["data"], state["seed"]) != (self._fingerprint(), self._seed):
            raise ConfigError(
                "The training data, their division into tasks or --seed are "
                "not those that the job began with; begin a new job in "
                "another --job_dir. "
                f"Received: {self.records_per_epoch} records in "
                f"{self.num_tasks} tasks, seed={self._seed}"
            )

    def _resumed(self, epoch: int, done: bytearray) -> Iterator[WorkItem]:
        # Of the moment of the restore: later ones are in the queue.
        done = bytearray(done)
        for item in self._items(epoch):
            if not done[item.task]:
                item.handed_out = 1
                yield item

    def _fingerprint(self) -> str:
        """Tells other data, or another division of them, from these."""
        digest = hashlib.sha256()
        for each in self._ranges:
            digest.update(f"{each.start},{each.count};".encode())
        return digest.hexdigest()[:16]

    def _forget_dropped(self) -> None:
        if self._dropped:
            self._queue.clear()

    def _refill(self) -> None:
        item = next(self._order, None)
        if item is None and self._may_begin():
            self._begin(self._epoch + 1)
            item = next(self._order, None)
        if item is not None:
            self._unstarted -= 1
            self._restored = max(0, self._restored - 1)
            self._queue.add([item])

    def _may_begin(self) -> bool:
        return not self._dropped and self._epoch < self._allowed

    def _begin(self, epoch: int) -> None:
        self._epoch = epoch
        self._left[epoch] = self._unstarted = self.num_tasks
        self._done[epoch] = bytearray(self.num_tasks)
        self._order = self._items(epoch)

    def _items(self, epoch: int) -> Iterator[WorkItem]:
        order: np.ndarray = np.arange(self.num_tasks)
        shuffles: np.ndarray = np.full(self.num_tasks, -1, np.int64)
        if self._shuffle:
            drawn = self._draw(epoch, seeds.ORDER)
            order = np.argsort(drawn, kind="stable")
            drawn = self._draw(epoch, seeds.SHUFFLE)
            # 63 bits: the wire's and tf.data's seeds are signed.
            shuffles = (drawn >> np.uint64(1)).astype(np.int64)
        for task in order.tolist():
            yield WorkItem(
                kind=master_pb2.TASK_TRAIN,
                task=task,
                epoch=epoch,
                range=self._ranges[task],
                shuffle_seed=int(shuffles[task]),
            )

    def _draw(self, epoch: int, purpose: int) -> np.ndarray:
        return seeds.keys(self._seed, epoch, self.num_tasks, purpose)


def _pack(done: bytearray | None) -> str:
    """Returns which tasks are done as text; empty for all of them."""
    if done is None:
        return ""
    bits = np.packbits(np.frombuffer(done, np.uint8), bitorder="little")
    return base64.b64encode(bits.tobytes()).decode()


def _unpack(text: str, count: int) -> bytearray:
    if not text:
        return bytearray(b"\x01" * count)
    packed = np.frombuffer(base64.b64decode(text), np.uint8)
    bits = np.unpackbits(packed, count=count, bitorder="little")
    return bytearray(bits.tobytes())
