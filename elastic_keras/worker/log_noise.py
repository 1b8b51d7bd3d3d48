"""Keeps what TensorFlow says at its start out of a worker's log.

TensorFlow reads TF_CPP_MIN_LOG_LEVEL, but what it logs while it is imported
and looks for devices is written before it has set its own logging up, and
heeds the variable no more in new versions.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator

_STDERR = 2
_LEVELS = "IWEF"
# `I0000 00:00:1796.5 ...`, or `2026-01-01 00:00:00.5: I ...`.
_LOGGED = re.compile(
    r"(?:([IWEF])\d{4} \d\d:\d\d:)|(?:\d{4}-\d\d-\d\d [\d:.]+: ([IWEF]) )"
)
_ABOUT_LOGGING = "WARNING: All log messages before absl::InitializeLog()"
# Said as an error on every host without a GPU.
_NO_GPU = ("failed call to cuInit", "Unable to register cu")


@contextlib.contextmanager
def without_noise() -> Iterator[None]:
    """Takes TensorFlow's messages below TF_CPP_MIN_LOG_LEVEL out of the log.

    They are taken out of the file at the end of the block, so that whatever
    a process says that dies inside is there. Without a log file of its own
    (a terminal, a pipe) nothing is done.
    """
    begin = _log_size()
    try:
        yield
    finally:
        if begin is not None:
            # A log that cannot be shortened stays as it is.
            with contextlib.suppress(OSError):
                _rewrite(begin)


def _log_size() -> int | None:
    """Returns the size of the file behind stderr; `None` for another kind."""
    try:
        status = os.fstat(_STDERR)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _rewrite(begin: int) -> None:
    with open(f"/proc/self/fd/{_STDERR}", "rb") as file:
        file.seek(begin)
        said = file.read()
    kept = quiet(said.decode(errors="replace")).encode()
    if kept != said:
        os.ftruncate(_STDERR, begin)
        # Where the file was opened to append, this is where it ends.
        os.lseek(_STDERR, begin, os.SEEK_SET)
        os.write(_STDERR, kept)


def quiet(text: str, level: int | None = None) -> str:
    """Returns lines without those that TensorFlow should not have logged.

    Args:
        text: The lines.
        level: Least level that stays: 0 for all, 3 for fatal ones only;
            `None` goes by TF_CPP_MIN_LOG_LEVEL.
    """
    if level is None:
        given = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "0")
        level = int(given) if given.isdigit() else 0
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not _is_noise(line, level))


def _is_noise(line: str, level: int) -> bool:
    if line.startswith(_ABOUT_LOGGING):
        return level > 0
    found = _LOGGED.match(line)
    if found is None:
        return False
    if level > 1 and any(words in line for words in _NO_GPU):
        return True
    return _LEVELS.index(found[1] or found[2]) < level
