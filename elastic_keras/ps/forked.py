"""Work of a forked process: on memory as it is at this moment."""

import contextlib
import gc
import os
import signal
import threading
from collections.abc import Callable
from typing import NoReturn

# Standard streams stay open: a crash of the interpreter is told there.
_FIRST_FD = 3
_DONE, _FAILED = b"+", b"-"


Work = Callable[[Callable[[], None]], bytes]


def prepare() -> None:
    """Readies this process for forks; to be called before gRPC begins.

    gRPC's handlers of a fork would halt its threads before each one, and
    crash the child where that fails. This child never calls gRPC.
    """
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"


class ForkedError(RuntimeError):
    """The work was not done; the message says why."""


class Forked:
    """A child process that works on a copy of this one's memory.

    The copy costs a table of pages; pages are copied when this process
    changes them. Other threads do not exist in the child, and their locks
    stay as they were: it may only touch arrays and files that it opens
    itself. It closes all connections first, so that they end with this
    process.

    Args:
        work: What the child does; its result is sent here. Now and then
            it calls what it is given, which ends the child once this
            process is gone.

    Raises:
        OSError: The system refuses another process.
    """

    def __init__(self, work: Work) -> None:
        reader, writer = os.pipe()
        parent = os.getpid()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(reader)
            os.close(writer)
            raise
        if self._pid == 0:
            _live(work, writer, parent)
        os.close(writer)
        self._reader = reader
        self._lock = threading.Lock()
        self._alive = True

    def result(self) -> bytes:
        """Waits for the work's result; to be called once.

        Raises:
            ForkedError: It failed, or the child was ended.
        """
        with open(self._reader, "rb") as file:
            data = file.read()
        with self._lock:
            # From now on another process may have its number.
            self._alive = False
            _, status = os.waitpid(self._pid, 0)
        if data[:1] == _DONE:
            return data[1:]
        if data[:1] == _FAILED:
            raise ForkedError(data[1:].decode(errors="replace"))
        code = os.waitstatus_to_exitcode(status)
        raise ForkedError(f"its process ended with exit code {code}")

    def end(self) -> None:
        """Ends the child at once, if it still is at work."""
        with self._lock:
            if self._alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)


def _live(work: Work, writer: int, parent: int) -> NoReturn:
    """The child's whole life."""
    code = 1
    try:
        os.closerange(_FIRST_FD, writer)
        os.closerange(writer + 1, os.sysconf("SC_OPEN_MAX"))
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # A collection would copy the pages of every object that it looks at.
        gc.disable()

        def proceed() -> None:
            if os.getppid() != parent:
                os._exit(1)

        try:
            answer = _DONE + work(proceed)
        except BaseException as error:
            answer = _FAILED + _told(error).encode()
        with open(writer, "wb") as file:
            file.write(answer)
        code = 0
    finally:
        # No handlers, no flushing of what the parent has in its buffers.
        os._exit(code)


def _told(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"{type(error).__name__}: {error}"
