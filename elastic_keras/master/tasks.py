"""The training tasks of a job, epoch after epoch."""

import collections
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

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
        # Tasks of each begun epoch that are not done.
        self._left: dict[int, int] = {}
        self._counts: dict[int, Counts] = collections.defaultdict(Counts)

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
        self._left[lease.item.epoch] -= 1
        self._counts[lease.item.epoch].add(counts)

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
        self._unstarted = 0
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
            self._queue.add([item])

    def _may_begin(self) -> bool:
        return not self._dropped and self._epoch < self._allowed

    def _begin(self, epoch: int) -> None:
        self._epoch = epoch
        self._left[epoch] = self._unstarted = self.num_tasks
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
