"""Everything that is to be seen of a running job, as one message."""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from elastic_keras.master import result
from elastic_keras.master.traffic import Rate
from elastic_keras.wire.proto import master_pb2

if TYPE_CHECKING:
    from elastic_keras.master.job import Job


def describe(job: "Job") -> master_pb2.JobDescription:
    """Returns the job's status, and each worker and shard.

    Args:
        job: The job.
    """
    return master_pb2.JobDescription(
        job_id=job.config.job_id,
        status=job.status(),
        seconds=job.seconds,
        workers=_workers(job),
        shards=_shards(job),
        restarts=result.restarts(job.job_dir, job.membership.restarts),
    )


def _workers(job: "Job") -> Iterator[master_pb2.WorkerStatus]:
    members = {worker.index: worker for worker in job.membership.workers}
    wanted = range(job.workers_wanted)
    for index in sorted({*wanted, *members, *job.paces.indexes}):
        pace = job.paces.of(index, job.now)
        alive = index in members
        yield master_pb2.WorkerStatus(
            index=index,
            alive=alive,
            training=alive and bool(members[index].member),
            steps=pace.steps,
            examples=pace.examples,
            examples_per_second=pace.examples_per_second,
            own_seconds=pace.own_seconds,
            pull_seconds=pace.pull_seconds,
            push_seconds=pace.push_seconds,
        )


def _shards(job: "Job") -> Iterator[master_pb2.ShardLoad]:
    # There are no rates until the shards have reported twice.
    rates = itertools.chain(
        job.monitor.traffic.rates(), itertools.repeat(Rate(0.0, 0.0))
    )
    for status, rate in zip(job.monitor.statuses, rates, strict=False):
        yield master_pb2.ShardLoad(
            status=status,
            pulled_bytes_per_second=rate.pulled,
            pushed_bytes_per_second=rate.pushed,
        )
