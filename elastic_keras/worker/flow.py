"""What reaches the main thread, and how many steps are under way."""

import collections
import threading
from typing import Any

from elastic_keras.worker.channel import Closed


class Flow:
    """The main thread's inbox and the window of steps in flight.

    A step is in flight from the moment its pull is sent until every shard
    has its push. Urgent items (batches to recompute) come before all others:
    with them others may make progress, so the main thread never waits for
    anything but this inbox.

    Args:
        window: Most steps in flight.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._in_flight = 0
        self._urgent: collections.deque[Any] = collections.deque()
        self._items: collections.deque[Any] = collections.deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._closed = False

    @property
    def window(self) -> int:
        """Most steps in flight; a change holds from the next step on."""
        return self._window

    @window.setter
    def window(self, window: int) -> None:
        with self._changed:
            self._window = window
            self._changed.notify_all()

    def enter(self) -> None:
        """Counts a step as in flight; waits while the window is full.

        Raises:
            Closed: The flow was closed.
        """
        with self._changed:
            while self._in_flight >= self._window and not self._closed:
                self._changed.wait()
            self._check()
            self._in_flight += 1

    def leave(self) -> None:
        """Counts a step as done: pushed everywhere, or dropped."""
        with self._changed:
            self._in_flight -= 1
            self._changed.notify_all()

    def put(self, item: Any) -> None:
        """Adds an item in order."""
        with self._changed:
            self._items.append(item)
            self._changed.notify_all()

    def put_urgent(self, item: Any) -> None:
        """Adds an item that comes before all others."""
        with self._changed:
            self._urgent.append(item)
            self._changed.notify_all()

    def get(self) -> Any:
        """Takes the next item, urgent ones first; waits for one.

        Raises:
            Closed: The flow was closed.
            BaseException: What another thread failed with (`fail`).
        """
        with self._changed:
            while not (self._urgent or self._items or self._closed):
                self._changed.wait()
            self._check()
            return (self._urgent or self._items).popleft()

    def get_urgent(self) -> Any | None:
        """Takes an urgent item; `None` once no step is in flight.

        The main thread calls this to let everything land.
        """
        with self._changed:
            while not (self._urgent or self._closed) and self._in_flight:
                self._changed.wait()
            self._check()
            return self._urgent.popleft() if self._urgent else None

    def fail(self, error: BaseException) -> None:
        """Ends the flow: the main thread raises `error`."""
        with self._changed:
            if self._error is None:
                self._error = error
        self.close()

    def close(self) -> None:
        """Ends the flow: every waiting call raises `Closed`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _check(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._closed:
            raise Closed
