"""What every process of a job is started with."""

import argparse
import logging
import pathlib
from typing import NoReturn

from elastic_keras.config import ConfigError, JobConfig


class _Parser(argparse.ArgumentParser):
    """A parser that refuses what it does not know by `ConfigError`."""

    def error(self, message: str) -> NoReturn:
        """Raises what argparse found wrong."""
        raise ConfigError(f"{message}. Usage: {self.format_usage().strip()}")


def read_arguments(role: str) -> argparse.Namespace:
    """Returns the arguments that this process was started with.

    Args:
        role: `master`, `ps` or `worker`; a job has but one master, so that
            only the others have an index.

    Raises:
        ConfigError: They are others, or one is missing.
    """
    parser = _Parser(prog=f"elastic_keras.{role}.main", allow_abbrev=False)
    parser.add_argument("--job_dir", required=True, help="Job directory.")
    if role != "master":
        parser.add_argument(
            "--index", required=True, type=int, help=f"Index of this {role}."
        )
    return parser.parse_args()


def log_to_stderr() -> None:
    """Logs to what the launcher keeps as this process's log."""
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )


def read_config(job_dir: str) -> JobConfig:
    """Returns the config that the launcher left in the job directory.

    Args:
        job_dir: The job directory.

    Raises:
        ConfigError: There is no config.json, or it is none.
    """
    path = pathlib.Path(job_dir) / "config.json"
    try:
        return JobConfig.from_json(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"Cannot read the job's config.json: {error}. "
            f"Received: job_dir={job_dir!r}"
        ) from error
