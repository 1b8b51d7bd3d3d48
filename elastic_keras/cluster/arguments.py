"""What every process of a job is started with."""

import argparse
import pathlib
from typing import NoReturn

from elastic_keras.config import ConfigError, JobConfig


class ProcessArguments(argparse.ArgumentParser):
    """A parser that refuses what it does not know by `ConfigError`."""

    def error(self, message: str) -> NoReturn:
        """Raises what argparse found wrong."""
        raise ConfigError(f"{message}. Usage: {self.format_usage().strip()}")


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
