"""The launcher's view of a running job, through the master's RPCs."""

import contextlib
import threading
from collections.abc import Callable

from google.protobuf.message import Message

from elastic_keras.config import JobConfig
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2, ps_pb2, tensor_pb2
from elastic_keras.wire.rpc import Client, read_tls

_FINAL = ("succeeded", "failed", "stopped")
# A first start may have to compile the shards' kernels.
_READY_SECONDS = 300.0
_TELL_SECONDS = 3.0
_RESTART_SECONDS = 60.0

_MASTER = master_pb2.DESCRIPTOR.services_by_name["Master"]
_SHARD = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]


class JobWatch:
    """Follows the job's status and asks the master to stop it.

    Args:
        config: The job.
        token: Its token.
    """

    def __init__(self, config: JobConfig, token: str) -> None:
        self._closed = threading.Event()
        tls = read_tls(config.wire)
        self._master = Client(
            config.master_address, _MASTER, token=token, tls=tls
        )
        self._shards = [
            Client(address, _SHARD, token=token, tls=tls)
            for address in config.ps_addresses
        ]

    def start(
        self,
        *,
        on_status: Callable[[master_pb2.JobStatus], None],
        on_unreachable: Callable[[str], None],
    ) -> None:
        """Starts following, in threads of its own.

        Args:
            on_status: Called with each status.
            on_unreachable: Called with a message if a shard does not get
                ready.
        """
        for target, callback in (
            (self._follow, on_status),
            (self._await_shards, on_unreachable),
        ):
            threading.Thread(
                target=target, args=(callback,), daemon=True
            ).start()

    def stop_job(self, reason: str) -> None:
        """Asks the master to stop the job; does not wait for it."""
        self._tell("StopJob", master_pb2.StopJobRequest(reason=reason))

    def worker_died(self, index: int, pid: int) -> None:
        """Tells the master of a dead worker, whose tasks others then take.

        Args:
            index: Its index.
            pid: Its process id: the news may come after its successor.
        """
        request = master_pb2.LeaveRequest(index=index, pid=pid)
        # A master that is started again counts on its workers.
        self._tell("Leave", request, _RESTART_SECONDS)

    def close(self) -> None:
        """Ends all calls."""
        self._closed.set()
        for client in (self._master, *self._shards):
            client.close()

    def _tell(
        self, method: str, request: Message, patience: float = _TELL_SECONDS
    ) -> None:
        """Calls the master from a thread of its own, and lets it be."""

        def call() -> None:
            # A master that cannot answer is for others to deal with.
            with contextlib.suppress(RpcError):
                self._master.call(
                    method,
                    request,
                    timeout=_TELL_SECONDS,
                    retry_for=patience,
                )

        threading.Thread(target=call, daemon=True).start()

    def _follow(
        self, on_status: Callable[[master_pb2.JobStatus], None]
    ) -> None:
        while not self._closed.is_set():
            try:
                for status in self._master.stream(
                    "WatchJob", tensor_pb2.Empty()
                ):
                    on_status(status)
                    if status.phase in _FINAL:
                        return
            except RpcError:
                pass
            # The master is not there yet, or its process is gone: that is
            # for the one who waits on the process to notice.
            self._closed.wait(0.2)

    def _await_shards(self, on_unreachable: Callable[[str], None]) -> None:
        for index, client in enumerate(self._shards):
            try:
                client.call(
                    "GetStatus",
                    tensor_pb2.Empty(),
                    timeout=_READY_SECONDS,
                    retry_for=_READY_SECONDS,
                )
            except RpcError as error:
                if not self._closed.is_set():
                    on_unreachable(f"ps-{index} did not get ready: {error}")
                return
