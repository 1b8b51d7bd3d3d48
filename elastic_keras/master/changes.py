"""Waking whatever waits for a change of the job's state."""

import asyncio


class Changes:
    """Tells coroutines of one event loop that some state changed.

    A waiter looks at the state again after each change. There is no lock:
    between a look and the `wait` after it no other coroutine runs.
    """

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Wakes everyone who waits."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, timeout: float | None = None) -> bool:
        """Waits for the next change.

        Args:
            timeout: Most seconds to wait; `None` for any time.

        Returns:
            False if the time ran out without a change.
        """
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            if timeout is None:
                await future
                return True
            done, _ = await asyncio.wait([future], timeout=max(timeout, 0.0))
            return bool(done)
        finally:
            self._waiting.discard(future)
