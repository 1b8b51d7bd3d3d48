"""A lock for many readers or one writer."""

import contextlib
import threading
from collections.abc import Iterator


class ReadWriteLock:
    """Lets several threads read together, and one write alone.

    A waiting writer goes before readers that come after it, so that pulls
    never starve a push.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = 0
        self._writing = False
        self._waiting_writers = 0

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Holds the lock together with other readers."""
        with self._changed:
            while self._writing or self._waiting_writers:
                self._changed.wait()
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                if not self._readers:
                    self._changed.notify_all()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Holds the lock alone."""
        with self._changed:
            self._waiting_writers += 1
            try:
                while self._writing or self._readers:
                    self._changed.wait()
            finally:
                self._waiting_writers -= 1
            self._writing = True
        try:
            yield
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()
