"""When a failed call is tried again, and how long after."""

import random
import time
from collections.abc import Callable

# Only what a dead, restarting or busy server causes. Every call of this
# system may be repeated: the ledger knows which pushes were applied.
RETRIED_CODES = ("UNAVAILABLE", "DEADLINE_EXCEEDED")
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


class Retry:
    """The attempts of one call: exponential backoff with full jitter.

    Args:
        timeout: Deadline of one attempt, in seconds.
        retry_for: Seconds after which the call is given up; 0 makes one
            attempt only, `None` never gives up.
        clock: Where the time comes from.
        uniform: Draws a float between its two arguments.
    """

    def __init__(
        self,
        timeout: float,
        retry_for: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._timeout = timeout
        self._retry_for = retry_for
        self._clock = clock
        self._uniform = uniform
        self._start = clock()
        self._failures = 0

    def attempt_timeout(self) -> float:
        """Returns the deadline of the next attempt, in seconds."""
        if not self._retry_for:
            return self._timeout
        return max(min(self._timeout, self._left()), 0.001)

    def pause(self, code: str) -> float | None:
        """Takes note of a failed attempt.

        Args:
            code: Name of its gRPC status code.

        Returns:
            Seconds to wait before the next, or `None` to give up.
        """
        if code not in RETRIED_CODES:
            return None
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**self._failures)
        # 2.0**n must not overflow in a call that is retried for days.
        self._failures = min(self._failures + 1, 16)
        pause = self._uniform(0.0, longest)
        if self._retry_for is not None and pause >= self._left():
            return None
        return pause

    def _left(self) -> float:
        assert self._retry_for is not None
        return self._retry_for - (self._clock() - self._start)
