"""`elastic_keras status`: how a job stands, or how it ended."""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.live import Live

from elastic_keras.cluster import exits
from elastic_keras.cluster.running_job import RunningJob
from elastic_keras.config import ConfigError, option
from elastic_keras.help_text import option_help
from elastic_keras.monitoring import job_table
from elastic_keras.monitoring.job_view import JobView

# Reads flags: see `cli._parse`.
Parse = Callable[..., dict[str, Any] | None]
_PAUSE = 1.0


@dataclasses.dataclass(frozen=True)
class _Options:
    job_dir: str = option("", "The job directory.")
    json: bool = option(False, "Print one JSON object and leave.")
    once: bool = option(
        False,
        "Print the present state and leave, as is done where the output is "
        "no terminal.",
    )


def run(given: Sequence[str], parse: Parse) -> int:
    """Runs `status`.

    Args:
        given: The arguments after it.
        parse: Reads a command's flags.

    Returns:
        The exit code: 0 also for a job that failed.

    Raises:
        ConfigError: There is no job, or one that is not running and has left
            no result.
    """
    values = parse("status", given, dataclasses.fields(_Options), "job_dir")
    if values is None:
        print(_help())
        return exits.DONE
    options = _Options(**values)
    if not options.job_dir:
        raise ConfigError(
            "Name a job directory, e.g. elastic_keras status runs/deepfm. "
            f"Received: job_dir={options.job_dir!r}"
        )
    console = Console()
    with contextlib.closing(RunningJob(options.job_dir)) as job:
        if options.json:
            print(job.look().to_json())
        elif options.once or not console.is_terminal:
            console.print(job_table.render(job.look()))
        else:
            with contextlib.suppress(KeyboardInterrupt):
                follow(job.look, console)
    return exits.DONE


def follow(
    look: Callable[[], JobView],
    console: Console,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Shows a job until it has ended.

    Args:
        look: Returns the job's state.
        console: Where to.
        pause: Waits between two looks.
    """
    view = look()
    with Live(
        job_table.render(view), console=console, auto_refresh=False
    ) as live:
        while view.running:
            pause(_PAUSE)
            view = look()
            live.update(job_table.render(view), refresh=True)


def _help() -> str:
    return "\n".join(
        [
            "elastic_keras status JOB_DIR [--json] [--once]",
            "",
            "  Shows a running job until it ends: members, tasks, speed,",
            "  staleness, restarts, the slowest worker, the hottest shard.",
            "  Of a job that has ended it shows the result.",
            "",
            *option_help(dataclasses.fields(_Options)),
            "",
            "Exit codes: 0 success, 2 no such job, or one that is not running "
            "and left no",
            "result.",
        ]
    )
