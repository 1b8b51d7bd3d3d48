"""A shard's process for benchmarks."""

import dataclasses
import os
import pathlib
import secrets
import socket
import subprocess
import sys

import psutil

from elastic_keras.config import (
    ClusterOptions,
    DataOptions,
    JobConfig,
    SnapshotOptions,
    StalenessOptions,
)

# As the launcher sets them for a job's processes.
_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
}


def run_as_launched() -> None:
    """Begins this process anew with a job's environment, if it lacks it."""
    if os.environ.keys().isdisjoint(_ENVIRONMENT):
        os.execve(
            sys.executable,
            [sys.executable, *sys.argv],
            {**_ENVIRONMENT, **os.environ},
        )


class Shard:
    """One shard's process, ended with the block.

    Args:
        folder: Its job directory.
        options: The bound on staleness.
        transport: `unix` or `tcp`.
        journal: Whether it keeps a journal.
    """

    def __init__(
        self,
        folder: str,
        options: StalenessOptions,
        transport: str = "unix",
        journal: bool = False,
    ) -> None:
        self.options = options
        self.job_id = "benchmark"
        self.token = secrets.token_hex(16)
        self.address = f"unix:{folder}/ps-0.sock"
        if transport == "tcp":
            self.address = f"127.0.0.1:{_free_port()}"
        config = dataclasses.replace(
            JobConfig(),
            # Only a job that trains has a journal.
            data=DataOptions(training_data="made up"),
            snapshots=SnapshotOptions(journal=journal),
            staleness=options,
            cluster=ClusterOptions(job_dir=folder),
            job_id=self.job_id,
            ps_addresses=(self.address,),
        )
        self._folder = pathlib.Path(folder)
        (self._folder / "config.json").write_text(config.to_json())

    def __enter__(self) -> "Shard":
        command = [
            sys.executable,
            "-m",
            "elastic_keras.ps.main",
            f"--job_dir={self._folder}",
            "--index=0",
        ]
        with open(self._folder / "ps-0.log", "w") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "EK_JOB_TOKEN": self.token},
                stderr=log,
            )
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait()

    def cpu_seconds(self) -> float:
        """Returns the processor time that it has used."""
        times = psutil.Process(self._process.pid).cpu_times()
        return times.user + times.system

    def resident_bytes(self) -> int:
        """Returns the memory that it occupies."""
        return int(psutil.Process(self._process.pid).memory_info().rss)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
