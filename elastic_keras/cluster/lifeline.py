"""A process of a job ends when its launcher is gone."""

import contextlib
import os
import shutil
import signal
import sys
import threading

ENABLED = "EK_LIFELINE"
# The folder of the job's sockets, which the launcher made.
SOCKETS = "EK_SOCKETS"
# The file with the job's token, which the launcher wrote.
TOKEN_FILE = "EK_TOKEN_FILE"
_GRACE_SECONDS = 5.0


def watch_parent() -> None:
    """Stops this process once the launcher's end of stdin is closed.

    The launcher holds the write end of each process's stdin; the kernel
    closes it however the launcher dies. Then this process gets a SIGTERM
    and, should it still be there 5 seconds later, a SIGKILL. The folder of
    the job's sockets and its token are removed in the launcher's stead.
    Nothing happens on a terminal or where the launcher did not ask for it.
    """
    if os.environ.get(ENABLED) != "1" or sys.stdin is None:
        return
    descriptor = sys.stdin.fileno()
    if os.isatty(descriptor):
        return
    threading.Thread(
        target=_wait_for_end,
        args=(descriptor,),
        name="lifeline",
        daemon=True,
    ).start()


def _wait_for_end(descriptor: int) -> None:
    try:
        # Not sys.stdin.read: its lock would hold up the interpreter's exit.
        while os.read(descriptor, 4096):
            pass
    except OSError:
        pass
    # Calls that are under way do not need the names. Whichever process is
    # first removes them: any of the others may have been killed as well.
    if folder := os.environ.get(SOCKETS):
        shutil.rmtree(folder, ignore_errors=True)
    if token := os.environ.get(TOKEN_FILE):
        with contextlib.suppress(OSError):
            os.remove(token)
    pid = os.getpid()
    os.kill(pid, signal.SIGTERM)
    threading.Event().wait(_GRACE_SECONDS)
    os.kill(pid, signal.SIGKILL)
