"""A worker's connection to the master."""

import itertools
import os
import socket
import threading
from typing import Any

from elastic_keras.config import ConfigError, WireOptions
from elastic_keras.wire import rpc
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2


class MasterClient:
    """Calls the master under the identity that it gave at the join.

    Args:
        address: The master's address.
        index: The worker's index in the job.
        job_id: The job's identity, for the handshake.
        wire: How bytes travel.
        token: The job's token.
    """

    def __init__(
        self,
        address: str,
        *,
        index: int,
        job_id: str,
        wire: WireOptions,
        token: str = "",
    ) -> None:
        service = master_pb2.DESCRIPTOR.services_by_name["Master"]
        self._index = index
        self._job_id = job_id
        self._client = rpc.Client(
            address,
            service,
            token=token,
            tls=rpc.read_tls(wire),
            timeout=wire.rpc_timeout_secs,
            max_message_bytes=wire.max_message_mb << 20,
        )
        self._lock = threading.Lock()
        self.worker = 0
        self._task_calls = itertools.count(1)
        self._reserve_calls = itertools.count(1)

    def join(self, *, has_callbacks: bool) -> master_pb2.WorkerJoinReply | None:
        """Makes this process a worker of the job.

        Args:
            has_callbacks: The module has Keras callbacks.

        Returns:
            The master's answer; `None` where the job is over.

        Raises:
            ConfigError: The master is of another job or protocol.
        """
        request = master_pb2.WorkerJoinRequest(
            job_id=self._job_id,
            protocol_version=rpc.PROTOCOL_VERSION,
            index=self._index,
            pid=os.getpid(),
            host=socket.gethostname(),
            has_callbacks=has_callbacks,
        )
        try:
            reply = self._client.call("Join", request)
        except RpcError as error:
            if error.code == "ABORTED":
                return None
            if error.code in ("FAILED_PRECONDITION", "INVALID_ARGUMENT"):
                raise ConfigError(error.message) from error
            raise
        with self._lock:
            self.worker = reply.worker
            self._task_calls = itertools.count(1)
            self._reserve_calls = itertools.count(1)
        return reply

    def get_task(self, *, interrupted: bool = False) -> master_pb2.Task:
        """Asks for a task; `TASK_WAIT` where there is none for a while.

        Args:
            interrupted: An evaluation interrupts a training task.
        """
        request = master_pb2.GetTaskRequest(
            worker=self.worker,
            interrupted=interrupted,
            call=next(self._task_calls),
        )
        return self._client.call("GetTask", request)

    def report(self, request: master_pb2.ReportTaskRequest) -> None:
        """Reports a task done, failed or handed back."""
        request.worker = self.worker
        self._client.call("ReportTask", request)

    def reserve(
        self, *, done: int = 0, returned: int = 0, want: int = 0
    ) -> master_pb2.ReserveStepsReply:
        """Settles steps and asks for leave to start more.

        Args:
            done: Steps that every shard has taken.
            returned: Steps that will not be done.
            want: Steps to start; 0 only settles and never waits.
        """
        request = master_pb2.ReserveStepsRequest(
            worker=self.worker,
            done=done,
            returned=returned,
            want=want,
            call=next(self._reserve_calls),
        )
        return self._client.call("ReserveSteps", request)

    def heartbeat(
        self, request: master_pb2.HeartbeatRequest
    ) -> master_pb2.HeartbeatReply:
        """Shows that this worker is alive."""
        request.worker = self.worker
        return self._client.call("Heartbeat", request)

    def stop_training(self) -> None:
        """Says that a callback wants training to end."""
        self.heartbeat(master_pb2.HeartbeatRequest(stop_training=True))

    def leave(self, *, timeout: float) -> None:
        """Hands everything back; makes one attempt.

        Args:
            timeout: Seconds to wait for the answer.
        """
        request: Any = master_pb2.LeaveRequest(worker=self.worker)
        self._client.call(
            "Leave",
            request,
            timeout=timeout,
            retry_for=0,
            wait_for_ready=False,
        )

    def close(self) -> None:
        """Closes the connection; calls under way fail."""
        self._client.close()


def is_unknown_worker(error: RpcError) -> bool:
    """Whether the master answered that it does not know this worker."""
    return error.code == "NOT_FOUND"
