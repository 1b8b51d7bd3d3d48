"""What a person sees of a running job."""

import abc
import math
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from rich import progress as rich_progress
from rich.console import Console
from rich.table import Column

from elastic_keras.wire.proto import master_pb2

_PLAIN_SECONDS = 2.0
_FINAL = ("succeeded", "failed", "stopped")


class Progress(abc.ABC):
    """Shows the newest status of a job."""

    @abc.abstractmethod
    def update(self, status: master_pb2.JobStatus) -> None:
        """Shows a status."""

    @abc.abstractmethod
    def say(self, line: str) -> None:
        """Shows a line that stays.

        Args:
            line: The line.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Leaves the terminal as it was."""


def make_progress(mode: str, stream: TextIO | None = None) -> Progress:
    """Makes the progress display of `--progress`.

    Args:
        mode: `auto`, `rich`, `plain` or `none`.
        stream: Where to; the process's stderr by default.
    """
    stream = sys.stderr if stream is None else stream
    console = Console(file=stream)
    if mode == "auto":
        lively = console.is_terminal or console.is_jupyter
        mode = "rich" if lively else "plain"
    if mode == "rich":
        return RichProgress(console)
    return PlainProgress(stream) if mode == "plain" else NoProgress()


class NoProgress(Progress):
    """Shows nothing."""

    def update(self, status: master_pb2.JobStatus) -> None:
        """See `Progress.update`."""

    def say(self, line: str) -> None:
        """See `Progress.say`."""

    def close(self) -> None:
        """See `Progress.close`."""


class PlainProgress(Progress):
    """Prints a line every few seconds, and when the phase changes.

    A line that says nothing new is left out, and so is a message that was
    shown before.

    Args:
        stream: Where to.
        clock: Seconds now.
    """

    def __init__(
        self, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = stream
        self._clock = clock
        self._phase = ""
        self._message = ""
        self._parts: list[str] = []
        self._printed = -math.inf

    def update(self, status: master_pb2.JobStatus) -> None:
        """See `Progress.update`."""
        now = self._clock()
        same = status.phase == self._phase
        if same and now - self._printed < _PLAIN_SECONDS:
            return
        self._phase, self._printed = status.phase, now
        parts = [status.phase, *describe(status)]
        message = status.message if status.message != self._message else ""
        self._message = status.message
        if parts == self._parts and not message:
            return
        self._parts = parts
        if message:
            parts = [*parts, message]
        self.say("  ".join(parts))

    def say(self, line: str) -> None:
        """See `Progress.say`."""
        print(line, file=self._stream, flush=True)

    def close(self) -> None:
        """See `Progress.close`."""


class RichProgress(Progress):
    """A live bar on a terminal or in a notebook.

    Args:
        console: rich's console.
    """

    def __init__(self, console: Console) -> None:
        self._progress = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(bar_width=24),
            # On a narrow terminal it goes over several lines.
            rich_progress.TextColumn(
                "{task.fields[details]}", table_column=Column(no_wrap=False)
            ),
            console=console,
        )
        self._bar = self._progress.add_task("starting", total=None, details="")
        self._progress.start()

    def update(self, status: master_pb2.JobStatus) -> None:
        """See `Progress.update`."""
        self._progress.update(
            self._bar,
            description=status.phase,
            total=status.records_expected or None,
            completed=status.records_done,
            details="  ".join([*describe(status), status.message]).strip(),
            refresh=status.phase in _FINAL,
        )

    def say(self, line: str) -> None:
        """See `Progress.say`."""
        self._progress.console.print(
            line, markup=False, highlight=False, soft_wrap=True
        )

    def close(self) -> None:
        """See `Progress.close`."""
        self._progress.stop()


def describe(status: master_pb2.JobStatus) -> list[str]:
    """Returns the parts of a progress line.

    Args:
        status: The status; its phase and message are left out.
    """
    parts = []
    if status.num_epochs:
        epoch = min(status.epoch + 1, status.num_epochs)
        parts.append(f"epoch {epoch}/{status.num_epochs}")
    if status.records_expected:
        parts.append(
            f"{status.records_done:,}/{status.records_expected:,} records"
        )
    if status.examples_per_second:
        parts.append(f"{status.examples_per_second:,.0f} examples/s")
    if status.loss:
        # 0 until the first heartbeat that tells of steps.
        parts.append(f"loss {status.loss:.4g}")
    parts += _values(status.metrics, "")
    parts += _values(status.evaluation, "val_")
    if status.staleness_max:
        # Its maximum would read like the S of --max_staleness, which under
        # `wait` counts a worker's steps and not all workers' versions.
        parts.append(
            f"staleness {status.staleness_mean:.1f} versions on average"
        )
    plural = "" if status.workers_alive == 1 else "s"
    parts.append(f"{status.workers_alive} worker{plural}")
    if status.seconds_left > 0 and status.phase not in _FINAL:
        parts.append(f"{duration(status.seconds_left)} left")
    return parts


def _values(values: Mapping[str, float], prefix: str) -> list[str]:
    return [
        f"{prefix}{name} {value:.4g}"
        for name, value in sorted(values.items())
        if prefix or name != "loss"
    ]


def duration(seconds: float) -> str:
    """Returns a time as people say it, e.g. `3m05s`."""
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole}s"
    minutes, seconds_left = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}m{seconds_left:02d}s"
    return f"{minutes // 60}h{minutes % 60:02d}m"
