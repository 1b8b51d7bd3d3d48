"""The folder in which a job leaves everything."""

import contextlib
import datetime
import fcntl
import json
import os
import pathlib
import time
from collections.abc import Iterator
from typing import Any

from elastic_keras.config import ConfigError, JobConfig

_DEFAULT_ROOT = "runs"
# The lifeline ends processes within this time of their launcher's end.
_LOCK_SECONDS = 10.0
_LOCK_PAUSE = 0.1


class JobDirectory:
    """Paths inside a job directory, and the files the launcher writes.

    Args:
        path: The folder; see `make_job_directory` for a new one.
    """

    def __init__(self, path: str) -> None:
        self.path = pathlib.Path(path)

    @property
    def result(self) -> pathlib.Path:
        """Where the job's result is, once it is over."""
        return self.path / "result.json"

    def log(self, process: str) -> pathlib.Path:
        """Returns the log file of a process, e.g. `worker-0`."""
        return self.path / "logs" / f"{process}.log"

    @property
    def token(self) -> pathlib.Path:
        """Where the job's token is while it runs, for its owner only."""
        return self.path / ".token"

    def read_token(self) -> str:
        """Returns the job's token; empty for a job that does not run.

        Raises:
            ConfigError: It may not be read.
        """
        try:
            return self.token.read_text()
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise ConfigError(
                "Only the user who started a job may ask it: "
                f"{error.strerror}. Received: job_dir={str(self.path)!r}"
            ) from error

    def write_token(self, token: str) -> None:
        """Writes the job's token, for commands that ask its master."""
        # With this mode from the beginning: nobody may read it meanwhile.
        descriptor = os.open(
            self.token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600
        )
        with open(descriptor, "w") as file:
            file.write(token)

    def remove_token(self) -> None:
        """Removes the token of a job that is over."""
        self.token.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self, patience: float = _LOCK_SECONDS) -> Iterator[int]:
        """Holds the directory for one launcher and its processes.

        Args:
            patience: Seconds to wait for those of another one.

        Yields:
            A file descriptor: a process that inherits it holds the directory
            as well, whatever becomes of the launcher.

        Raises:
            ConfigError: Processes of another launcher are still there.
        """
        with open(self.path / ".lock", "w") as file:
            gives_up = time.monotonic() + patience
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError as error:
                    if time.monotonic() > gives_up:
                        raise ConfigError(
                            "The job is running. "
                            f"Received: job_dir={str(self.path)!r}"
                        ) from error
                    time.sleep(_LOCK_PAUSE)
            yield file.fileno()

    def forget_end(self) -> None:
        """Removes what a job left that is to go on."""
        self.result.unlink(missing_ok=True)
        self.remove_token()

    def write_config(self, config: JobConfig) -> None:
        """Writes config.json, from which each process reads its job."""
        self._write("config.json", config.to_json())

    def write_restarts(self, counts: dict[str, int]) -> None:
        """Writes restarts.json: restarts so far by role."""
        self._write("restarts.json", json.dumps(counts))

    def read_result(self) -> dict[str, Any] | None:
        """Returns what result.json holds; `None` if there is none."""
        try:
            result = json.loads(self.result.read_text())
        except (OSError, ValueError):
            return None
        return result if isinstance(result, dict) else None

    def write_result(self, result: dict[str, Any]) -> None:
        """Writes result.json for a job whose master could not."""
        self._write("result.json", json.dumps(result, indent=2) + "\n")

    def _write(self, name: str, text: str) -> None:
        # Renamed into place: a reader sees the old file or the new one.
        new = self.path / f".{name}.new"
        new.write_text(text)
        os.replace(new, self.path / name)


def make_job_directory(config: JobConfig) -> JobDirectory:
    """Makes the directory of a new job.

    Args:
        config: `--job_dir`, or a new folder under runs/ where it is empty.
            With a `job_id` it is the folder of a job that goes on.

    Raises:
        ConfigError: It cannot be written, or holds something already.
    """
    path = config.cluster.job_dir or _new_name(config)
    try:
        os.makedirs(path, exist_ok=True)
        if os.listdir(path) and not config.job_id:
            raise ConfigError(
                "The job directory holds another job already; name a new or "
                f"an empty one. Received: job_dir={path!r}"
            )
        os.makedirs(os.path.join(path, "logs"), exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"The job directory cannot be written: {error.strerror}. "
            f"Received: job_dir={path!r}"
        ) from error
    return JobDirectory(os.path.abspath(path))


def _new_name(config: JobConfig) -> str:
    model = pathlib.PurePath(config.model.model_def).name or "job"
    name = model.removesuffix(".py").rsplit(".", 1)[-1]
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    path = os.path.join(_DEFAULT_ROOT, f"{name}-{now}")
    number = 1
    while os.path.exists(path if number == 1 else f"{path}-{number}"):
        number += 1
    return path if number == 1 else f"{path}-{number}"
