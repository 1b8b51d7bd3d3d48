"""Turns Ctrl-C and SIGTERM into events of a job."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def forwarded(handle: Callable[[int], None]) -> Iterator[None]:
    """Hands SIGINT and SIGTERM to a function instead of raising.

    Python allows this in the main thread only; elsewhere nothing changes.

    Args:
        handle: Gets the signal's number; called between two instructions
            of the main thread, so it must not take a lock.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        handle(number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(
                number, signal.SIG_DFL if handler is None else handler
            )
