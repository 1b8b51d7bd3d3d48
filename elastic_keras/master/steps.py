"""Leave to start steps, so that evaluations and the end fall on exact steps."""

from collections.abc import Mapping

# A training task: (epoch, task).
TaskKey = tuple[int, int]
_UNLIMITED = 1 << 32


class StepBudget:
    """Counts steps that may start before the next boundary.

    A boundary is a multiple of `evaluation_steps` or `snapshot_steps`, or
    `max_steps`. No step beyond it is granted until `advance`; once every
    granted step is settled the parameters rest at exactly that step. `hold`
    lets them rest wherever the steps under way end.

    What a lost worker did of the steps it had, only the ledgers know: no step
    is granted until the others' are settled and `resolve` was called. A batch
    that it pushed to some shards only is then owed a step, and stays so until
    the step is done or the task is: who gets it may hand it back.

    Args:
        evaluation_steps: Steps between evaluations; 0 for none.
        max_steps: Steps after which training ends; 0 for no limit.
        snapshot_steps: Steps between snapshots; 0 for none.
        holds: Whether `hold` is to be called.
    """

    def __init__(
        self,
        *,
        evaluation_steps: int,
        max_steps: int,
        snapshot_steps: int = 0,
        holds: bool = False,
    ) -> None:
        self._evaluation_steps = evaluation_steps
        self._max_steps = max_steps
        self._snapshot_steps = snapshot_steps
        self._holds = holds
        self._held = False
        self._granted: dict[int, int] = {}
        # There are steps of which only the ledgers know whether they are done.
        self._asking = False
        # Steps kept for who takes over a task with half-pushed batches.
        self._owed: dict[TaskKey, int] = {}
        # For workers, the tasks whose kept steps are among those granted.
        self._drawn: dict[int, list[TaskKey]] = {}
        self.done = 0
        self.boundary = self._next_boundary(0)

    @property
    def needed(self) -> bool:
        """Whether steps are counted at all."""
        return bool(
            self._evaluation_steps
            or self._max_steps
            or self._snapshot_steps
            or self._holds
        )

    @property
    def available(self) -> int | None:
        """Steps that may be granted now; `None` for any number."""
        if not self.needed:
            return None
        if self._asking or self._held:
            return 0
        if self.boundary is None:
            return _UNLIMITED
        kept = sum(self._granted.values()) + sum(self._owed.values())
        return max(0, self.boundary - self.done - kept)

    @property
    def at_boundary(self) -> bool:
        """Whether all steps before the boundary are done, and none runs."""
        return self.done == self.boundary and not self._busy

    @property
    def held(self) -> bool:
        """Whether `hold` was called, and `go_on` was not."""
        return self._held

    @property
    def resting(self) -> bool:
        """Whether no step is under way, and none starts until `go_on`."""
        return self._held and not self._busy

    @property
    def evaluates(self) -> bool:
        """Whether an evaluation belongs to the boundary."""
        return _is_multiple(self.boundary, self._evaluation_steps)

    @property
    def snapshots(self) -> bool:
        """Whether a snapshot belongs to the boundary."""
        return _is_multiple(self.boundary, self._snapshot_steps)

    @property
    def finished(self) -> bool:
        """Whether `max_steps` is reached."""
        return bool(self._max_steps) and self.done >= self._max_steps

    @property
    def asks_ledgers(self) -> bool:
        """Whether it is time to ask the ledgers for lost workers' steps."""
        return self._asking and not self._granted

    @property
    def owed(self) -> frozenset[TaskKey]:
        """Tasks for which steps are kept."""
        return frozenset(self._owed)

    @property
    def _busy(self) -> bool:
        return bool(self._granted) or self._asking

    def outstanding(self, worker: int) -> int:
        """Returns the worker's granted steps that are not settled."""
        return self._granted.get(worker, 0)

    def grant(
        self,
        worker: int,
        want: int,
        *,
        num_workers: int,
        task: TaskKey | None = None,
    ) -> int:
        """Grants steps.

        Args:
            worker: Who asks.
            want: Most steps that it can use.
            num_workers: Workers that share what is left: nobody gets so
                much of it that the others have to wait long.
            task: The training task that the worker is at.

        Returns:
            Number of steps granted, 0 where none is left.
        """
        available = self.available
        if available is None:
            return want
        granted = 0
        if not (self._asking or self._held):
            granted = self._take_owed(worker, want, task)
        if not granted:
            share = max(1, available // (2 * max(1, num_workers)))
            granted = max(0, min(want, share, available))
        if granted:
            self._granted[worker] = self.outstanding(worker) + granted
        return granted

    def settle(self, worker: int, *, done: int, returned: int) -> None:
        """Takes a worker's word on steps that were granted to it.

        Args:
            worker: Whose steps.
            done: Steps that all shards have.
            returned: Steps that it does not need.
        """
        outstanding = self.outstanding(worker)
        done = max(0, min(done, outstanding))
        returned = max(0, min(returned, outstanding - done))
        self.done += done
        self._keep_again(worker, outstanding - done, returned)
        self._set(worker, outstanding - done - returned)

    def lose(self, worker: int) -> None:
        """Takes note that a worker is gone with the steps it had."""
        self._drawn.pop(worker, None)
        if self._granted.pop(worker, 0):
            self._asking = True

    def ask(self) -> None:
        """Asks the ledgers: a task with half-pushed batches came back."""
        self._asking = self.needed

    def resolve(self, done: int, owed: Mapping[TaskKey, int]) -> None:
        """Takes what the ledgers say, while no step runs.

        Args:
            done: Batches that every shard holds.
            owed: For tasks of lost workers, the steps up to the last batch
                that only some shards hold.
        """
        self._asking = False
        self.done = max(self.done, done)
        owed = {**self._owed, **owed}
        self._owed = {key: n for key, n in owed.items() if n}
        while self.boundary is not None and self.boundary < self.done:
            self.boundary = self._next_boundary(self.boundary)

    def restore(self, handled: int) -> None:
        """Goes on after another master; only the ledgers know its steps.

        Args:
            handled: The last boundary that it went beyond.
        """
        self.done = handled
        self.boundary = self._next_boundary(handled)
        self._asking = self.needed

    def forgive(self, task: TaskKey) -> None:
        """Keeps no more steps for a task that is done."""
        self._owed.pop(task, None)
        for drawn in self._drawn.values():
            drawn[:] = [other for other in drawn if other != task]

    def hold(self) -> None:
        """Grants no more steps until `go_on`."""
        self._held = True

    def go_on(self) -> None:
        """Grants steps again."""
        self._held = False

    def advance(self) -> None:
        """Opens the steps up to the next boundary."""
        self.boundary = self._next_boundary(self.done)

    def _take_owed(self, worker: int, want: int, task: TaskKey | None) -> int:
        if task is None or task not in self._owed:
            return 0
        taken = min(want, self._owed[task])
        self._owed[task] -= taken
        if not self._owed[task]:
            del self._owed[task]
        self._drawn.setdefault(worker, []).extend([task] * taken)
        return taken

    def _keep_again(self, worker: int, open_steps: int, returned: int) -> None:
        """Keeps those returned steps that were kept before.

        Which of its steps a worker did is not said: its kept ones count as
        open for as long as they can be. One step too many is kept until the
        task is done, one too few would leave a batch half-pushed for good.
        """
        drawn = self._drawn.get(worker, [])
        del drawn[: max(0, len(drawn) - open_steps)]
        for _ in range(min(returned, len(drawn))):
            task = drawn.pop()
            self._owed[task] = self._owed.get(task, 0) + 1

    def _set(self, worker: int, outstanding: int) -> None:
        if outstanding:
            self._granted[worker] = outstanding
        else:
            self._granted.pop(worker, None)
            self._drawn.pop(worker, None)

    def _next_boundary(self, done: int) -> int | None:
        candidates = [
            (done // n + 1) * n
            for n in (self._evaluation_steps, self._snapshot_steps)
            if n
        ]
        if self._max_steps:
            candidates.append(max(self._max_steps, done))
        return min(candidates, default=None)


def _is_multiple(boundary: int | None, steps: int) -> bool:
    return bool(steps) and boundary is not None and boundary % steps == 0
