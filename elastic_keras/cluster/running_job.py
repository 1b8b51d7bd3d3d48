"""Asks a job how it stands, from outside of its processes."""

import os
import time
from collections.abc import Callable

from elastic_keras.cluster.arguments import read_config
from elastic_keras.cluster.job_directory import JobDirectory
from elastic_keras.config import ConfigError
from elastic_keras.monitoring import job_view
from elastic_keras.monitoring.job_view import JobView
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2, tensor_pb2
from elastic_keras.wire.rpc import Client, read_tls

_MASTER = master_pb2.DESCRIPTOR.services_by_name["Master"]
# A master that starts imports for a second or two before it answers.
_PATIENCE = 20.0
_PAUSE = 0.2
_CALL_SECONDS = 10.0
_AWAY = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")


class RunningJob:
    """A job, seen from its directory; close it after use.

    Args:
        job_dir: The job directory.
        patience: Seconds to wait for a master that does not answer.
        pause: Waits between two tries.

    Raises:
        ConfigError: There is no job.
    """

    def __init__(
        self,
        job_dir: str,
        *,
        patience: float = _PATIENCE,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._job_dir = job_dir
        self._config = read_config(job_dir)
        self._directory = JobDirectory(job_dir)
        self._patience = patience
        self._pause = pause
        self._client: Client | None = None

    def look(self) -> JobView:
        """Returns how the job stands, or how it ended.

        Raises:
            ConfigError: It neither runs nor has left a result, or refuses to
                answer.
        """
        gives_up = time.monotonic() + self._patience
        while True:
            failure = "its processes are gone"
            if self._may_run():
                try:
                    return self._ask()
                except RpcError as error:
                    if error.code not in _AWAY:
                        raise ConfigError(
                            f"The job's master refuses to answer: {error}. "
                            f"Received: job_dir={self._job_dir!r}"
                        ) from error
                    failure = f"its master does not answer: {error.code}"
            result = self._directory.read_result()
            if result is not None:
                return job_view.of_result(
                    self._job_dir,
                    result,
                    num_epochs=self._num_epochs,
                )
            if not self._may_run() or time.monotonic() > gives_up:
                raise ConfigError(
                    f"The job is not running, and has left no result: "
                    f"{failure}; see its logs/. "
                    f"Received: job_dir={self._job_dir!r}"
                )
            self._pause(_PAUSE)

    def scale(self, num_workers: int) -> None:
        """Says how many workers the job is to have.

        Args:
            num_workers: At least 1.

        Raises:
            ConfigError: The job does not run, or its master does not answer.
        """
        if not self._may_run():
            raise ConfigError(
                f"The job is not running. Received: job_dir={self._job_dir!r}"
            )
        try:
            self._master().call(
                "ScaleJob",
                master_pb2.ScaleJobRequest(num_workers=num_workers),
                timeout=_CALL_SECONDS,
                retry_for=self._patience,
                wait_for_ready=False,
            )
        except RpcError as error:
            raise ConfigError(
                f"The job's master does not take the number: {error}. "
                f"Received: job_dir={self._job_dir!r}, "
                f"num_workers={num_workers}"
            ) from error

    def close(self) -> None:
        """Ends the connection."""
        if self._client is not None:
            self._client.close()

    @property
    def _num_epochs(self) -> int:
        if self._config.command != "train":
            return 0
        return self._config.training.num_epochs

    def _may_run(self) -> bool:
        """Whether the launcher, or what it left, says so."""
        if not self._directory.token.exists():
            return False
        kind, _, path = self._config.master_address.partition(":")
        # A launcher that was killed leaves the token, not its sockets.
        return kind != "unix" or os.path.isdir(os.path.dirname(path))

    def _ask(self) -> JobView:
        description = self._master().call(
            "DescribeJob",
            tensor_pb2.Empty(),
            timeout=_CALL_SECONDS,
            retry_for=0,
            wait_for_ready=False,
        )
        return job_view.of_description(self._job_dir, description)

    def _master(self) -> Client:
        if self._client is None:
            self._client = Client(
                self._config.master_address,
                _MASTER,
                token=self._directory.read_token(),
                tls=read_tls(self._config.wire),
            )
        return self._client
