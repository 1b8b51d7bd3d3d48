"""One process of a local job."""

import contextlib
import os
import pathlib
import signal
import subprocess
from collections.abc import Mapping, Sequence

from elastic_keras.cluster import exits
from elastic_keras.zoo.errors import TRACEBACK_PREFIX

_MOST_LINES = 30
_TAIL_BYTES = 64 << 10


class Process:
    """A running process, its log and its last words.

    Args:
        role: `master`, `ps` or `worker`.
        index: Its number among those of its role.
        command: Program and arguments.
        environment: Its whole environment.
        log: File that gets its output; a restart continues it.
        inherited: File descriptors that it keeps open.
    """

    def __init__(
        self,
        role: str,
        index: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: pathlib.Path,
        inherited: Sequence[int] = (),
    ) -> None:
        self.role = role
        self.index = index
        self.log = log
        with open(log, "ab") as output:
            self._log_start = output.tell()
            # A session of its own: a Ctrl-C on the terminal reaches the
            # launcher alone. The pipe to stdin is the lifeline.
            self._popen = subprocess.Popen(
                list(command),
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=tuple(inherited),
            )

    @property
    def name(self) -> str:
        """The process's name in logs and messages."""
        if self.role == "master":
            return self.role
        return f"{self.role}-{self.index}"

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._popen.poll() is None

    def wait(self) -> int:
        """Waits for its end; returns its exit code, -n after signal n."""
        return self._popen.wait()

    def ends_within(self, seconds: float) -> bool:
        """Waits for its end so long; returns whether it came."""
        try:
            self._popen.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number: int) -> None:
        """Sends a signal to it and to whatever it started."""
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, number)

    def close(self) -> None:
        """Lets go of its lifeline."""
        if self._popen.stdin is not None:
            self._popen.stdin.close()

    def last_words(self) -> str:
        """Returns the end of its log since it was started.

        What it said on leaving (`error: ...` or a traceback) where its exit
        code promises that, the last lines otherwise.
        """
        with open(self.log, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
        return last_words(text, self._popen.poll())


def last_words(text: str, exit_code: int | None) -> str:
    """Picks from a log what a person needs to see of a process's end.

    Args:
        text: The log.
        exit_code: The exit code, which says what to look for.

    Returns:
        A message without its `error: `, a traceback, or the last lines.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if exit_code == exits.WRONG_USE:
        found = _from_last(lines, exits.ERROR_PREFIX)
        if found:
            return "\n".join(found).removeprefix(exits.ERROR_PREFIX)
    if exit_code == exits.USER_ERROR:
        found = _from_last(lines, TRACEBACK_PREFIX)
        if found:
            return "\n".join(found)
    return "\n".join(lines[-_MOST_LINES:])


def _from_last(lines: list[str], prefix: str) -> list[str]:
    for start in range(len(lines) - 1, -1, -1):
        if lines[start].startswith(prefix):
            return lines[start:]
    return []


def ending(exit_code: int) -> str:
    """Says how a process ended, e.g. `was killed by SIGKILL`."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    try:
        return f"was killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"was killed by signal {-exit_code}"
