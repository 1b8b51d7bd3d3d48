"""A PS shard's process: `python -m elastic_keras.ps.main`."""

import asyncio
import gc
import logging
import os
import signal

from elastic_keras.cluster.arguments import (
    log_to_stderr,
    read_arguments,
    read_config,
)
from elastic_keras.cluster.exits import run_main
from elastic_keras.cluster.lifeline import watch_parent
from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.ps import checks, forked, recovery, warm_up
from elastic_keras.ps.recovery import Restored
from elastic_keras.ps.servicer import ShardServicer
from elastic_keras.ps.shard import Shard
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.snapshot import Snapshot
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import ps_pb2

_LOGGER = logging.getLogger("elastic_keras.ps")
# What is under way is finished; pulls that wait are sent away.
_GRACE_SECONDS = 1.0


def _main() -> None:
    log_to_stderr()
    arguments = read_arguments("ps")
    config = read_config(arguments.job_dir)
    index = arguments.index
    if not 0 <= index < len(config.ps_addresses):
        raise ConfigError(
            f"The job has {len(config.ps_addresses)} shards. "
            f"Received: index={index}"
        )
    watch_parent()
    forked.prepare()
    warm_up.warm_up()
    checks.warm_up()
    # What is alive now stays: no collection need look at it again.
    gc.collect()
    gc.freeze()
    shard = Shard(index, len(config.ps_addresses), config.staleness)
    restored = Restored()
    if config.command == "train":
        restored = recovery.restore(shard, config, arguments.job_dir)
    elif config.snapshots.restore_from:
        shard.restore(Snapshot(config.snapshots.restore_from), training=False)
    asyncio.run(_serve(config, shard, arguments.job_dir, restored))


async def _serve(
    config: JobConfig, shard: Shard, job_dir: str, restored: Restored
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    servicer = ShardServicer(
        shard,
        job_id=config.job_id,
        snapshots=SnapshotFolder(job_dir).path,
        on_failure=stop.set,
        restored=restored,
    )
    address = config.ps_addresses[shard.index]
    server = rpc.make_server(
        servicer,
        ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"],
        address,
        token=os.environ.get("EK_JOB_TOKEN", ""),
        max_message_bytes=config.wire.max_message_mb << 20,
    )
    await server.start()
    _LOGGER.info("shard %d ready at %s", shard.index, address)
    await stop.wait()
    servicer.stop_waiting()
    await server.stop(_GRACE_SECONDS)
    servicer.close()
    if shard.failure is not None:
        raise shard.failure
    _LOGGER.info("shard %d stopped at version %d", shard.index, shard.version)


if __name__ == "__main__":
    run_main(_main)
