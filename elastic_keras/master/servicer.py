"""The master's RPCs: translates between messages and the job."""

import dataclasses
import json
from collections.abc import AsyncIterator
from typing import Any, cast

from elastic_keras.master.dispatch import Answer
from elastic_keras.master.job import Job
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import master_pb2, tensor_pb2

_LONGEST_WAIT = 20.0
_MOST_WORKERS = 10_000
# Of a call's time; the rest is for the answer's way back.
_SHARE = 0.5


class MasterServicer:
    """Serves one job.

    Args:
        job: The job.
    """

    def __init__(self, job: Job) -> None:
        self._job = job

    async def Join(  # noqa: N802 - the protocol's name
        self, request: master_pb2.WorkerJoinRequest
    ) -> master_pb2.WorkerJoinReply:
        """Takes a worker in."""
        rpc.check_join(
            request.job_id,
            request.protocol_version,
            expected_job_id=self._job.config.job_id,
        )
        sample = await self._job.sample()
        if sample is None:
            raise rpc.Refused("ABORTED", "The job is over.")
        worker = self._job.dispatch.join(
            request.index,
            has_callbacks=request.has_callbacks,
            pid=request.pid,
        )
        return master_pb2.WorkerJoinReply(
            worker=worker.number,
            chief=self._job.membership.chief == worker.number,
            sample=_range(sample),
        )

    async def GetTask(  # noqa: N802
        self, request: master_pb2.GetTaskRequest
    ) -> master_pb2.Task:
        """Waits for a task."""
        answer = await self._job.dispatch.get_task(
            request.worker,
            interrupted=request.interrupted,
            call=request.call,
            timeout=_patience(),
        )
        return task_message(answer)

    async def ReportTask(  # noqa: N802
        self, request: master_pb2.ReportTaskRequest
    ) -> tensor_pb2.Empty:
        """Takes a report."""
        self._job.dispatch.report(request)
        return tensor_pb2.Empty()

    async def ReserveSteps(  # noqa: N802
        self, request: master_pb2.ReserveStepsRequest
    ) -> master_pb2.ReserveStepsReply:
        """Waits for leave to start steps."""
        return await self._job.reserving.reserve(request, _patience())

    async def Heartbeat(  # noqa: N802
        self, request: master_pb2.HeartbeatRequest
    ) -> master_pb2.HeartbeatReply:
        """Takes a sign of life."""
        return self._job.heartbeat(request)

    async def Leave(  # noqa: N802
        self, request: master_pb2.LeaveRequest
    ) -> tensor_pb2.Empty:
        """Takes back what a worker has."""
        dispatch = self._job.dispatch
        if request.worker:
            dispatch.lose(request.worker, "it left")
        else:
            dispatch.lose_process(request.index, request.pid)
        return tensor_pb2.Empty()

    async def WatchJob(  # noqa: N802
        self, request: tensor_pb2.Empty
    ) -> AsyncIterator[master_pb2.JobStatus]:
        """Follows the job's status to its end."""
        async for status in self._job.watch():
            yield status

    async def DescribeJob(  # noqa: N802
        self, request: tensor_pb2.Empty
    ) -> master_pb2.JobDescription:
        """Tells how the job stands, and each worker and shard."""
        return self._job.describe()

    async def ScaleJob(  # noqa: N802
        self, request: master_pb2.ScaleJobRequest
    ) -> tensor_pb2.Empty:
        """Takes the number of workers that the job is to have."""
        if not 1 <= request.num_workers <= _MOST_WORKERS:
            raise rpc.WireError(
                f"num_workers: must lie in [1, {_MOST_WORKERS}]. "
                f"Received: num_workers={request.num_workers}"
            )
        self._job.scale(request.num_workers)
        return tensor_pb2.Empty()

    async def StopJob(  # noqa: N802
        self, request: master_pb2.StopJobRequest
    ) -> tensor_pb2.Empty:
        """Ends the job before its time."""
        self._job.stop(request.reason)
        return tensor_pb2.Empty()


def task_message(answer: Answer) -> master_pb2.Task:
    """Returns what a worker is sent.

    Args:
        answer: What `Dispatch.get_task` returned.
    """
    if answer.lease is None:
        return master_pb2.Task(kind=_kind(answer.kind))
    item = answer.lease.item
    return master_pb2.Task(
        kind=_kind(item.kind),
        task=item.task,
        epoch=item.epoch,
        range=None if item.range is None else _range(item.range),
        lease=answer.lease.number,
        member=answer.member,
        shuffle_seed=item.shuffle_seed,
        resumed=item.resumed,
        hook=item.hook,
        logs=json.dumps(item.logs),
        states=item.states,
        step=item.step,
    )


def _kind(number: int) -> master_pb2.TaskKind:
    return cast(master_pb2.TaskKind, number)


def _range(record_range: Any) -> master_pb2.RecordRange:
    return master_pb2.RecordRange(**dataclasses.asdict(record_range))


def _patience() -> float:
    """Seconds that the present call may wait."""
    left = rpc.time_remaining()
    if left is None:
        return _LONGEST_WAIT
    return min(_LONGEST_WAIT, left * _SHARE)
