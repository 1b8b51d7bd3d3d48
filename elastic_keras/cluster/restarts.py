"""When a process that died is started again."""

_LONGEST_DELAY = 30.0
# A process that ran this long starts over with the shortest delay.
_HEALTHY_SECONDS = 60.0


class Restarts:
    """Backoff of each process, and the end of patience.

    Args:
        limit: Deaths in a row, of any processes, without one step of the
            job in between, after which the job is given up.
        first_delay: Seconds before the first restart of a process; they
            double from one to the next.
    """

    def __init__(self, limit: int = 5, first_delay: float = 0.5) -> None:
        self._limit = limit
        self._first_delay = first_delay
        self._in_a_row = 0
        self._steps = -1
        self._delays: dict[str, float] = {}
        self.counts: dict[str, int] = {"worker": 0, "ps": 0, "master": 0}

    def died(self, name: str, *, ran_for: float, steps: int) -> float | None:
        """Decides about a process that died.

        Args:
            name: The process's name.
            ran_for: Seconds between its start and its death.
            steps: Steps that the job has done so far.

        Returns:
            Seconds to wait before it is started again; `None` to give up.
        """
        self._in_a_row = 1 if steps != self._steps else self._in_a_row + 1
        self._steps = steps
        if self._in_a_row > self._limit:
            return None
        delay = self._delays.get(name, 0.0) * 2
        if ran_for >= _HEALTHY_SECONDS or not delay:
            delay = self._first_delay
        self._delays[name] = min(delay, _LONGEST_DELAY)
        return self._delays[name]

    def restarted(self, role: str) -> None:
        """Counts a restart."""
        self.counts[role] += 1
