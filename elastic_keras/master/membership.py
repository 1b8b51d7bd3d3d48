"""The workers of a job, and which of them count for the staleness bound."""

import dataclasses
import itertools


@dataclasses.dataclass(eq=False)
class WorkerInfo:
    """A worker that has joined and is not gone.

    Args:
        number: Identifies the process.
        index: Its place among the workers; kept over restarts.
        has_callbacks: Whether its module has callbacks.
        last_seen: When it was heard of last.
        pid: Its process.
        member: Its member number while it is active, else 0.
    """

    number: int
    index: int
    has_callbacks: bool
    last_seen: float
    pid: int = 0
    member: int = 0


class Membership:
    """Who is alive, who is the chief, and who is a member.

    A worker is a member while it trains: others' pulls then wait for its
    steps. Each time it begins to train it gets a fresh member number, since
    its steps then start at the others' minimum clock.

    Args:
        deadline: Seconds of silence after which a worker is lost.
        first: The first of all numbers: later than those of a master before.
    """

    def __init__(self, deadline: float, first: int = 1) -> None:
        self._deadline = deadline
        self._workers: dict[int, WorkerInfo] = {}
        self._numbers = itertools.count(first)
        self._member_numbers = itertools.count(first)
        # The newest process of each index.
        self._pids: dict[int, int] = {}
        self._restarts = 0
        # Workers that came, and those that went.
        self.joined = 0
        # Of the list of members; the shards may know a former master's.
        self.number = first - 1

    @property
    def alive(self) -> int:
        """Number of workers."""
        return len(self._workers)

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """The workers, by their index."""
        return tuple(sorted(self._workers.values(), key=lambda w: w.index))

    @property
    def members(self) -> tuple[int, ...]:
        """Member numbers of the workers that train."""
        return tuple(
            sorted(w.member for w in self._workers.values() if w.member)
        )

    @property
    def chief(self) -> int | None:
        """The worker of the lowest index, which runs the callbacks."""
        workers = self.workers
        return workers[0].number if workers else None

    @property
    def restarts(self) -> int:
        """How often another process took over an index."""
        return self._restarts

    def join(
        self, index: int, now: float, *, has_callbacks: bool, pid: int = 0
    ) -> tuple[WorkerInfo, WorkerInfo | None]:
        """Takes a worker in.

        Args:
            index: Its index.
            now: The time.
            has_callbacks: Whether its module has callbacks.
            pid: Its process.

        Returns:
            The worker, and the one of the same index that it replaces: that
            process is gone, or its answer to a first Join was lost.
        """
        former = next(
            (w for w in self._workers.values() if w.index == index), None
        )
        if former is not None:
            self.remove(former.number)
        worker = WorkerInfo(next(self._numbers), index, has_callbacks, now, pid)
        self._workers[worker.number] = worker
        self.joined += 1
        # A worker that was lost joins again in the same process.
        self._restarts += self._pids.get(index, pid) != pid
        self._pids[index] = pid
        return worker, former

    def get(self, number: int) -> WorkerInfo | None:
        """Returns the worker, or `None` if it is gone."""
        return self._workers.get(number)

    def seen(self, number: int, now: float) -> None:
        """Notes that a worker was heard of."""
        worker = self._workers.get(number)
        if worker is not None:
            worker.last_seen = now

    def expired(self, now: float) -> list[WorkerInfo]:
        """Returns the workers that have been silent for too long."""
        return [
            w
            for w in self._workers.values()
            if now - w.last_seen > self._deadline
        ]

    def remove(self, number: int) -> bool:
        """Takes a worker out.

        Returns:
            Whether the members changed.
        """
        changed = self.deactivate(number)
        self._workers.pop(number, None)
        return changed

    def activate(self, number: int) -> int:
        """Makes a worker a member, if it is none.

        Returns:
            Its member number.
        """
        worker = self._workers[number]
        if not worker.member:
            worker.member = next(self._member_numbers)
            self.number += 1
        return worker.member

    def deactivate(self, number: int) -> bool:
        """Makes a worker no member.

        Returns:
            Whether the members changed.
        """
        worker = self._workers.get(number)
        if worker is None or not worker.member:
            return False
        worker.member = 0
        self.number += 1
        return True
