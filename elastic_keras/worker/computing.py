"""The compiled step between pull and push, as the pipeline uses it."""

import gc
import math
import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from elastic_keras.wire import tensors
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker import items
from elastic_keras.worker.eager import as_array, as_tensor
from elastic_keras.worker.observers import StepObserver
from elastic_keras.worker.running_logs import RunningLogs
from elastic_keras.worker.stats import WorkerStats
from elastic_keras.worker.step import Steps
from elastic_keras.worker.values import Dense, Pulled, StepGradients

# Running metrics are worked out this often, for the progress line.
_METRICS_SECONDS = 1.0


class BatchHooks(Protocol):
    """Keras's hooks around a training batch."""

    wants_train_batches: bool

    def train_batch_begin(self) -> None:
        """Calls `on_train_batch_begin`."""

    def train_batch_end(self, logs: dict[str, float]) -> None:
        """Calls `on_train_batch_end`."""


class TrainComputing:
    """Runs the compiled training step and keeps its books.

    Args:
        steps: The compiled steps.
        stats: Where steps are counted for the heartbeat.
        hooks: The callbacks' batch hooks, if this worker runs them.
        running: Their logs; by default those of the task alone.
    """

    def __init__(
        self,
        steps: Steps,
        stats: WorkerStats,
        hooks: BatchHooks | None = None,
        running: RunningLogs | None = None,
    ) -> None:
        self.hooks = hooks
        # They see the steps of the chief.
        self.observers: Sequence[StepObserver] = ()
        self._running = running or RunningLogs(steps.train_metrics)
        self.succeeded = False
        self._steps = steps
        self._stats = stats
        self._assigned: tuple[int, ...] = ()
        self._metrics_at = 0.0

    def assign(self, dense: Dense) -> None:
        """Gives the model the dense parameters and states of a pull."""
        if dense.versions == self._assigned:
            return
        self._steps.assign_dense(as_tensor(dense.dense))
        self._steps.assign_states(as_tensor(dense.states))
        self._assigned = dense.versions

    def begin_task(self) -> None:
        """Starts the metrics of a training task."""
        self._steps.train_metrics.reset()

    def compute(
        self, train: items.TrainBatch, pulled: Pulled, *, again: bool
    ) -> StepGradients:
        """Computes a batch's gradients; see `pipeline.Computing`."""
        began = time.monotonic()
        hooks = self.hooks
        if hooks is None or again or not hooks.wants_train_batches:
            gradients = self._observed(train.batch, pulled, again)
        else:
            hooks.train_batch_begin()
            gradients = self._observed(train.batch, pulled, again)
            hooks.train_batch_end(self._running.result())
        self._stats.add_computing(time.monotonic() - began)
        return gradients

    def end_task(self) -> master_pb2.MetricStates:
        """Returns the metrics' states of the training task."""
        states = self._steps.train_metrics.state()
        if self.hooks is not None and self.hooks.wants_train_batches:
            self._running.end_task(states)
        return encode_states(states)

    def _observed(
        self, batch: items.Batch, pulled: Pulled, again: bool
    ) -> StepGradients:
        # One and the same for a step: heartbeats may change it any time.
        observers = self.observers
        for observer in observers:
            observer.begin()
        gradients = self._compute(batch, pulled, again)
        for observer in observers:
            observer.end(pulled, gradients)
        return gradients

    def _compute(
        self, batch: items.Batch, pulled: Pulled, again: bool
    ) -> StepGradients:
        dense = pulled.dense
        is_new = dense.versions != self._assigned
        result = self._steps.train(
            batch.data,
            [as_tensor(rows) for rows in pulled.rows],
            batch.inverse,
            dense=as_tensor(dense.dense) if is_new else None,
            states=as_tensor(dense.states) if is_new else None,
            count=not again,
        )
        self._assigned = dense.versions
        gradients = StepGradients(
            rows=[as_array(rows) for rows in result.row_gradients],
            dense=as_array(result.dense),
            state_deltas=as_array(result.states),
            nonfinite=not bool(result.finite),
        )
        if not self.succeeded:
            self.succeeded = True
            # What tracing made stays: no collection need look at it again.
            gc.freeze()
        if not again:
            self._count(batch.examples, float(result.loss))
        return gradients

    def _count(self, examples: int, loss: float) -> None:
        self._stats.add_step(examples, loss if math.isfinite(loss) else 0.0)
        now = time.monotonic()
        if now - self._metrics_at > _METRICS_SECONDS:
            self._metrics_at = now
            self._stats.set_metrics(self._steps.train_metrics.result())


def encode_states(
    states: dict[str, list[np.ndarray]],
) -> master_pb2.MetricStates:
    """Returns metric states as a message."""
    message = master_pb2.MetricStates()
    for name, arrays in states.items():
        message.metrics[name].tensors.extend(
            tensors.encode(np.asarray(array)) for array in arrays
        )
    return message


def decode_states(
    message: master_pb2.MetricStates,
) -> dict[str, list[np.ndarray]]:
    """Returns metric states from a message."""
    return {
        name: [
            tensors.decode(tensor, name=f"state of metric {name}")
            for tensor in entry.tensors
        ]
        for name, entry in message.metrics.items()
    }
