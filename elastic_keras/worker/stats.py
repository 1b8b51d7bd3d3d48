"""What a worker counts between two heartbeats."""

import threading
import time

from elastic_keras.wire.proto import master_pb2


class WorkerStats:
    """Counters of steps and calls; several threads add, one takes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = time.monotonic()
        self._request = master_pb2.HeartbeatRequest()
        self._metrics: dict[str, float] = {}

    def add_step(self, examples: int, loss: float) -> None:
        """Counts one trained batch.

        Args:
            examples: Examples in the batch.
            loss: The batch's loss.
        """
        with self._lock:
            self._request.steps += 1
            self._request.examples += examples
            self._request.loss_sum += loss

    def add_computing(self, seconds: float) -> None:
        """Counts time in a training step and the callbacks around it."""
        with self._lock:
            self._request.computing_seconds += seconds

    def add_pull(self, seconds: float, received: int) -> None:
        """Counts one pull from all shards: its time and bytes."""
        with self._lock:
            _add(self._request.pull, seconds, received)

    def add_push(self, seconds: float, sent: int) -> None:
        """Counts one push to all shards: its time and bytes."""
        with self._lock:
            _add(self._request.push, seconds, sent)

    def set_metrics(self, metrics: dict[str, float]) -> None:
        """Takes the newest running values of the training metrics."""
        with self._lock:
            self._metrics = metrics

    def take(self) -> master_pb2.HeartbeatRequest:
        """Returns what was counted since the last call, as a heartbeat."""
        now = time.monotonic()
        with self._lock:
            request = self._request
            request.seconds = now - self._since
            self._since = now
            self._request = master_pb2.HeartbeatRequest()
            request.metrics.update(self._metrics)
        return request


def _add(stats: master_pb2.LatencyStats, seconds: float, size: int) -> None:
    stats.count += 1
    stats.seconds += seconds
    stats.max_seconds = max(stats.max_seconds, seconds)
    stats.bytes += size
