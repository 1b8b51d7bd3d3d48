"""`elastic_keras scale`: more or fewer workers for a running job."""

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from elastic_keras.cluster import exits
from elastic_keras.cluster.running_job import RunningJob
from elastic_keras.config import ConfigError, option
from elastic_keras.help_text import option_help

# Reads flags: see `cli._parse`.
Parse = Callable[..., dict[str, Any] | None]


@dataclasses.dataclass(frozen=True)
class _Options:
    job_dir: str = option("", "The job directory.")
    num_workers: int = option(0, "Workers that it is to have from now on.")


def run(given: Sequence[str], parse: Parse) -> int:
    """Runs `scale`.

    Args:
        given: The arguments after it.
        parse: Reads a command's flags.

    Returns:
        The exit code.

    Raises:
        ConfigError: There is no job that runs, or no number of workers.
    """
    values = parse("scale", given, dataclasses.fields(_Options), "job_dir")
    if values is None:
        print(_help())
        return exits.DONE
    options = _Options(**values)
    if not options.job_dir or options.num_workers < 1:
        raise ConfigError(
            "Name a running job and how many workers it is to have, e.g. "
            "elastic_keras scale runs/deepfm --num_workers=4. Received: "
            f"job_dir={options.job_dir!r}, num_workers={options.num_workers}"
        )
    with contextlib.closing(RunningJob(options.job_dir)) as job:
        job.scale(options.num_workers)
    print(f"The job is to have {options.num_workers} workers.")
    return exits.DONE


def _help() -> str:
    lines = ["elastic_keras scale JOB_DIR --num_workers=K", ""]
    lines.append(
        "  Starts workers of a running job, or ends those of the highest "
        "indexes;\n  their tasks go to others at once."
    )
    lines.append("")
    lines += option_help(dataclasses.fields(_Options))
    return "\n".join(lines)
