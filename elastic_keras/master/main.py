"""The master's process: `python -m elastic_keras.master.main`."""

import asyncio
import logging
import os
import signal
from typing import Any

from elastic_keras.cluster.arguments import (
    log_to_stderr,
    read_arguments,
    read_config,
)
from elastic_keras.cluster.exits import ERROR_PREFIX, run_main
from elastic_keras.cluster.lifeline import watch_parent
from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.master import metrics, state_file
from elastic_keras.master.job import Job
from elastic_keras.master.ranges import scan
from elastic_keras.master.reporting import Reporting
from elastic_keras.master.servicer import MasterServicer
from elastic_keras.master.shards import Shards
from elastic_keras.master.showing import show_result
from elastic_keras.monitoring.summaries import SummaryWriter
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import master_pb2

_LOGGER = logging.getLogger("elastic_keras.master")
# The launcher ends the master once it has heard how the job ended.
_LINGER_SECONDS = 60.0
_GRACE_SECONDS = 0.5


def _main() -> None:
    log_to_stderr()
    arguments = read_arguments("master")
    config = read_config(arguments.job_dir)
    watch_parent()
    asyncio.run(_serve(config, arguments.job_dir))


async def _serve(config: JobConfig, job_dir: str) -> None:
    token = os.environ.get("EK_JOB_TOKEN", "")
    shards = Shards(config, token)
    former = state_file.read(job_dir)
    job = Job(
        config,
        job_dir,
        shards,
        scan=scan,
        former=former or _of_snapshot(config),
        generation=former["generation"] + 1 if former else 0,
    )
    with metrics.served(job, config.monitoring.metrics_port):
        await _run(job, token)
    await shards.close()


def _of_snapshot(config: JobConfig) -> dict[str, Any] | None:
    """Returns where the job stood whose snapshot this one begins with."""
    path = config.snapshots.restore_from
    if config.command != "train" or not path:
        return None
    state = state_file.read(path)
    if state is None:
        raise ConfigError(
            "The snapshot does not tell where in the data it was taken. "
            f"Received: restore_from={path!r}"
        )
    return state


async def _run(job: Job, token: str) -> None:
    config, job_dir = job.config, job.job_dir
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    server = rpc.make_server(
        MasterServicer(job),
        master_pb2.DESCRIPTOR.services_by_name["Master"],
        config.master_address,
        token=token,
        tls=rpc.read_tls(config.wire),
        max_message_bytes=config.wire.max_message_mb << 20,
    )
    try:
        writer = SummaryWriter(os.path.join(job_dir, "summaries"))
    except OSError as error:
        raise ConfigError(
            f"The job directory cannot be written: {error.strerror}. "
            f"Received: job_dir={job_dir!r}"
        ) from error
    reporting = Reporting(job, writer, config.monitoring.summary_secs)
    await server.start()
    _LOGGER.info("Ready at %s", config.master_address)
    points = asyncio.create_task(reporting.run())
    run = asyncio.create_task(job.run())
    stop = asyncio.create_task(told.wait())
    await asyncio.wait([run, stop], return_when=asyncio.FIRST_COMPLETED)
    if not run.done():
        job.stop("the master was told to end")
    await run
    points.cancel()
    reporting.write()
    writer.close()
    if config.command == "train":
        show_result(job)
    if job.outcome.exit_code == 2:
        _LOGGER.error("%s%s", ERROR_PREFIX, job.outcome.message)
    elif job.outcome.message:
        _LOGGER.error("%s", job.outcome.message)
    try:
        await asyncio.wait_for(stop, _LINGER_SECONDS)
    except asyncio.TimeoutError:
        _LOGGER.warning("Nobody ended this process; it ends by itself")
    await server.stop(_GRACE_SECONDS)


if __name__ == "__main__":
    run_main(_main)
