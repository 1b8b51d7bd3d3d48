"""Items that wait, items that run, and who runs them."""

import collections
from collections.abc import Callable, Iterable, Iterator

from elastic_keras.master.work import Lease, WorkItem


class TaskQueue:
    """Hands out items under leases and takes them back.

    Each item is waiting, running under exactly one lease, or out of the
    queue. A lease ends once: by `finish`, `fail`, `release` or `lose`; a
    later word about it changes nothing.

    Args:
        numbers: Where lease numbers come from; shared between the queues of
            a job so that a number names one lease.
    """

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._waiting: collections.deque[WorkItem] = collections.deque()
        self._running: dict[int, Lease] = {}
        self._held: dict[int, set[int]] = collections.defaultdict(set)

    @property
    def waiting(self) -> int:
        """Number of items that nobody has."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """Number of items under a lease."""
        return len(self._running)

    def add(self, items: Iterable[WorkItem]) -> None:
        """Appends items."""
        self._waiting.extend(items)

    def take(
        self,
        worker: int,
        accept: Callable[[WorkItem], bool] = lambda item: True,
    ) -> Lease | None:
        """Hands a worker the first item that `accept` allows.

        Args:
            worker: Who gets it.
            accept: Which items this worker may have.

        Returns:
            The lease, or `None` where nothing is waiting for this worker.
        """
        for position, item in enumerate(self._waiting):
            if accept(item):
                del self._waiting[position]
                return self._lease(worker, item)
        return None

    def find(self, number: int, worker: int) -> Lease | None:
        """Returns the running lease, if it is this worker's."""
        lease = self._running.get(number)
        return lease if lease and lease.worker == worker else None

    def holds(self, worker: int) -> bool:
        """Returns whether the worker has an item."""
        return bool(self._held.get(worker))

    def items(self, worker: int) -> list[WorkItem]:
        """Returns what the worker has, in the order it got it."""
        held = self._held.get(worker, ())
        return [self._running[number].item for number in sorted(held)]

    def finish(self, lease: Lease) -> None:
        """Ends the lease of an item that is done."""
        self._end(lease)
        lease.item.finished = True

    def fail(self, lease: Lease) -> None:
        """Ends the lease of an item that raised, and queues it again."""
        lease.item.failures += 1
        self.release(lease)

    def release(self, lease: Lease) -> None:
        """Takes an item back, to be handed out next."""
        self._end(lease)
        self._waiting.appendleft(lease.item)

    def lose(self, worker: int) -> list[WorkItem]:
        """Takes back all items of a worker that is gone.

        Returns:
            The items, in the order in which they are handed out next.
        """
        held = self._held.get(worker, ())
        leases = [self._running[number] for number in sorted(held)]
        for lease in reversed(leases):
            self.release(lease)
        return [lease.item for lease in leases]

    def clear(self) -> None:
        """Forgets all items that are waiting."""
        self._waiting.clear()

    def _lease(self, worker: int, item: WorkItem) -> Lease:
        item.handed_out += 1
        lease = Lease(next(self._numbers), worker, item)
        self._running[lease.number] = lease
        self._held[worker].add(lease.number)
        return lease

    def _end(self, lease: Lease) -> None:
        del self._running[lease.number]
        held = self._held[lease.worker]
        held.discard(lease.number)
        if not held:
            del self._held[lease.worker]
