"""The interface of everything that can start and watch a job."""

import abc
import dataclasses
from collections.abc import Callable

from elastic_keras.config import JobConfig
from elastic_keras.wire.proto import master_pb2

StatusObserver = Callable[[master_pb2.JobStatus], None]
# Gets the job directory once it is there, before any process is.
DirectoryObserver = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class JobOutcome:
    """How a job ended.

    Args:
        job_dir: The job directory.
        status: `succeeded`, `failed` or `stopped`.
        exit_code: 0, 1 (the user's exception or a crash), 2 (wrong use or
            input), or 128 plus the signal that stopped the job.
        error: What went wrong: a traceback of the user's code or a message.
    """

    job_dir: str
    status: str
    exit_code: int = 0
    error: str = ""


class Launcher(abc.ABC):
    """Starts, watches and restarts the processes of one job."""

    @abc.abstractmethod
    def run(
        self,
        config: JobConfig,
        observer: StatusObserver,
        on_directory: DirectoryObserver | None = None,
    ) -> JobOutcome:
        """Runs a job to its end.

        Args:
            config: The job; identity and addresses are filled in here.
            observer: Called with each status that the master sends.
            on_directory: Called with the job directory, before any process
                is started.

        Returns:
            How the job ended.

        Raises:
            ConfigError: The job cannot start: its directory or a port.
        """
