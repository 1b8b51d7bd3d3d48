"""A bounded queue between two threads that can be closed."""

import collections
import threading
from typing import Generic, TypeVar

_Item = TypeVar("_Item")


class Closed(Exception):  # noqa: N818 - an end, not an error
    """The other side is gone: the thread shall end."""


class Channel(Generic[_Item]):
    """Passes items from one thread to another, in order.

    Args:
        capacity: `put` waits while this many items are there; 0 never waits.
    """

    def __init__(self, capacity: int = 0) -> None:
        self._capacity = capacity
        self._items: collections.deque[_Item] = collections.deque()
        self._changed = threading.Condition()
        self._closed = False

    def put(self, item: _Item) -> None:
        """Adds an item; waits while the channel is full.

        Raises:
            Closed: The channel was closed.
        """
        with self._changed:
            while self._full() and not self._closed:
                self._changed.wait()
            if self._closed:
                raise Closed
            self._items.append(item)
            self._changed.notify_all()

    def get(self) -> _Item:
        """Takes the oldest item; waits while there is none.

        Raises:
            Closed: The channel was closed; items left in it are dropped.
        """
        with self._changed:
            while not self._items and not self._closed:
                self._changed.wait()
            if self._closed:
                raise Closed
            item = self._items.popleft()
            self._changed.notify_all()
            return item

    def close(self) -> None:
        """Ends both sides at once."""
        with self._changed:
            self._closed = True
            self._items.clear()
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def count(self, kind: type) -> int:
        """Returns how many items of a kind are waiting."""
        with self._changed:
            return sum(isinstance(item, kind) for item in self._items)

    def _full(self) -> bool:
        return 0 < self._capacity <= len(self._items)
