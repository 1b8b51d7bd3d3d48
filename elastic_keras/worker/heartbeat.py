"""The heartbeat thread: shows that a worker is alive, and how it does."""

import threading
from collections.abc import Callable

from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.master_client import MasterClient
from elastic_keras.worker.stats import WorkerStats


class Heartbeat:
    """Sends a heartbeat every so many seconds until it is stopped.

    Args:
        master: The master.
        stats: What a heartbeat reports.
        seconds: Pause between two.
        heard: Gets every reply.
        failed: Gets the error that ends the thread.
    """

    def __init__(
        self,
        master: MasterClient,
        stats: WorkerStats,
        *,
        seconds: float,
        heard: Callable[[master_pb2.HeartbeatReply], None],
        failed: Callable[[RpcError], None],
    ) -> None:
        self._master = master
        self._stats = stats
        self._seconds = seconds
        self._heard = heard
        self._failed = failed
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="heartbeat", daemon=True
        )

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it; does not wait for a call under way."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                reply = self._master.heartbeat(self._stats.take())
            except RpcError as error:
                if not self._stopped.is_set():
                    self._failed(error)
                return
            if not self._stopped.is_set():
                self._heard(reply)
