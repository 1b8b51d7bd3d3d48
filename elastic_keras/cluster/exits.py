"""How a process of a job ends: its exit code and its last words."""

import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from elastic_keras.config import ConfigError
from elastic_keras.zoo.errors import (
    UserCodeError,
    has_users_frame,
    user_traceback,
)

DONE = 0
USER_ERROR = 1
WRONG_USE = 2
# Anything else (a signal too) is a crash: the launcher may restart it.
CRASH = 70

# What the launcher shows of a log starts at the last of this or of
# `TRACEBACK_PREFIX`.
ERROR_PREFIX = "error: "


def run_main(main: Callable[[], None]) -> NoReturn:
    """Runs a process's main function and leaves with the right exit code.

    Args:
        main: Returns when the process is done. `ConfigError` is wrong use
            (exit code 2), `UserCodeError` the user's own exception (1), as
            is a `SystemExit` out of the user's code.
    """
    sys.exit(_run(main))


def end_now() -> NoReturn:
    """Ends this process as SIGTERM does, from any thread.

    For a process whose main thread is in a kernel that may never return:
    nobody can make it leave in order.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    signal.raise_signal(signal.SIGTERM)
    # A module of the user's took over SIGTERM.
    signal.raise_signal(signal.SIGKILL)
    raise AssertionError("SIGKILL came back.")


def _run(main: Callable[[], None]) -> int:
    try:
        main()
    except ConfigError as error:
        print(f"{ERROR_PREFIX}{error}", file=sys.stderr, flush=True)
        return WRONG_USE
    except UserCodeError as error:
        print(error.traceback_text, file=sys.stderr, flush=True)
        return USER_ERROR
    except SystemExit as error:
        if not has_users_frame(error):
            raise
        # No crash that another try may mend: the user's code calls for it.
        print(user_traceback(error), file=sys.stderr, flush=True)
        return USER_ERROR
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        return CRASH
    return DONE
