"""The launcher of jobs whose processes all run on this host."""

import contextlib
import dataclasses
import os
import pathlib
import secrets
import sys
from collections.abc import Callable, Mapping

import elastic_keras
from elastic_keras.cluster import lifeline, signals
from elastic_keras.cluster.addresses import local_addresses
from elastic_keras.cluster.job_directory import make_job_directory
from elastic_keras.cluster.job_watch import JobWatch
from elastic_keras.cluster.launcher import (
    DirectoryObserver,
    JobOutcome,
    Launcher,
    StatusObserver,
)
from elastic_keras.cluster.process import Process
from elastic_keras.cluster.restarts import Restarts
from elastic_keras.cluster.supervisor import Supervisor
from elastic_keras.config import JobConfig

TOKEN_VARIABLE = "EK_JOB_TOKEN"

# (role, index, job directory) -> program and arguments.
CommandOf = Callable[[str, int, pathlib.Path], list[str]]


def python_command(role: str, index: int, job_dir: pathlib.Path) -> list[str]:
    """Returns the command of one of a job's own processes."""
    command = [
        sys.executable,
        "-m",
        f"elastic_keras.{role}.main",
        f"--job_dir={job_dir}",
    ]
    return command if role == "master" else [*command, f"--index={index}"]


class LocalLauncher(Launcher):
    """Starts every process as a child of this one.

    Args:
        command_of: What to run for a role; tests put stand-ins here.
        make_restarts: Makes the record of a job's restarts.
    """

    def __init__(
        self,
        command_of: CommandOf = python_command,
        make_restarts: Callable[[], Restarts] = Restarts,
    ) -> None:
        self._command_of = command_of
        self._make_restarts = make_restarts

    def run(
        self,
        config: JobConfig,
        observer: StatusObserver,
        on_directory: DirectoryObserver | None = None,
    ) -> JobOutcome:
        """See `Launcher.run`."""
        with contextlib.ExitStack() as stack:
            addresses = stack.enter_context(local_addresses(config))
            directory = make_job_directory(config)
            lock = stack.enter_context(directory.locked())
            directory.forget_end()
            config = dataclasses.replace(
                config,
                job_id=config.job_id or secrets.token_hex(8),
                master_address=addresses.master,
                ps_addresses=addresses.shards,
            )
            directory.write_config(config)
            if on_directory is not None:
                on_directory(str(directory.path))
            token = secrets.token_hex(32)
            environment = {
                **process_environment(os.environ, token, addresses.folder),
                lifeline.TOKEN_FILE: str(directory.token),
            }

            def start(role: str, index: int) -> Process:
                name = role if role == "master" else f"{role}-{index}"
                return Process(
                    role,
                    index,
                    self._command_of(role, index, directory.path),
                    environment,
                    directory.log(name),
                    (lock,),
                )

            supervisor = Supervisor(
                directory,
                JobWatch(config, token),
                start,
                self._make_restarts(),
                observer,
                lambda role: role in restartable(config),
                lambda count: directory.write_config(
                    config.with_options(num_workers=count)
                ),
            )
            roles = {
                "ps": config.cluster.num_ps,
                "master": 1,
                "worker": config.cluster.num_workers,
            }
            directory.write_token(token)
            stack.callback(directory.remove_token)
            stack.enter_context(signals.forwarded(supervisor.interrupt))
            return supervisor.run(roles)


def restartable(config: JobConfig) -> tuple[str, ...]:
    """Returns the roles whose processes lose nothing when they are killed."""
    if config.command == "train" and not config.snapshots.journal:
        return ("worker", "master")
    return ("worker", "ps", "master")


def process_environment(
    base: Mapping[str, str], token: str, sockets: str
) -> dict[str, str]:
    """Returns the environment of a job's processes."""
    package_parent = str(pathlib.Path(elastic_keras.__file__).parents[1])
    paths = [package_parent, base.get("PYTHONPATH", "")]
    return {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "GRPC_VERBOSITY": "ERROR",
        # A shard is copied by a fork whose child never calls gRPC.
        "GRPC_ENABLE_FORK_SUPPORT": "0",
        # Memory of large messages is kept: given back to the system, it
        # would be mapped and zeroed anew at each copy.
        "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
        "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
        **base,
        TOKEN_VARIABLE: token,
        lifeline.ENABLED: "1",
        lifeline.SOCKETS: sockets,
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
