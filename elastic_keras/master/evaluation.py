"""Evaluations: when the parameters rest, over all workers, exactly."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from elastic_keras.config import ConfigError
from elastic_keras.master.changes import Changes
from elastic_keras.master.dispatch import Dispatch
from elastic_keras.master.history import History, Point
from elastic_keras.master.shards import ShardCalls
from elastic_keras.master.side_tasks import SideTasks
from elastic_keras.master.states import MetricSum
from elastic_keras.wire.proto import master_pb2

_LOGGER = logging.getLogger(__name__)
_Hook = Callable[..., Awaitable[None]]


class Evaluation:
    """Evaluates the validation data on one set of parameters.

    Call `run` only while no step is under way.

    Args:
        dispatch: Hands the tasks out.
        side: Runs them.
        shards: Flushed before.
        changes: Notified of changes.
        history: Gets the results.
        ranges: The validation data.
        hook: Runs a hook of the Keras callbacks.
    """

    def __init__(
        self,
        *,
        dispatch: Dispatch,
        side: SideTasks,
        shards: ShardCalls,
        changes: Changes,
        history: History,
        ranges: Sequence[Any],
        hook: _Hook,
    ) -> None:
        self._dispatch = dispatch
        self._side = side
        self._shards = shards
        self._changes = changes
        self._history = history
        self._ranges = ranges
        self._hook = hook
        self._states: MetricSum | None = None
        self.running = False
        # Time that all evaluations took.
        self.seconds = 0.0
        # Iterations that the newest evaluation saw.
        self.evaluated_at: int | None = None

    def add(self, states: master_pb2.MetricStates) -> None:
        """Adds the metric states of an evaluation task."""
        if self._states is not None:
            self._states.add(states)

    async def run(self, epoch: int) -> dict[str, float]:
        """Evaluates.

        Args:
            epoch: The epoch.

        Returns:
            Value by metric.

        Raises:
            ConfigError: The data gave no example.
        """
        self.running = self._dispatch.interrupting = True
        self._states = MetricSum()
        self._changes.notify()
        start = time.monotonic()
        try:
            step = await self._shards.flush()
            await self._hook("on_test_begin", epoch=epoch, step=step)
            examples = await self._side.evaluate(
                self._ranges, epoch=epoch, step=step
            )
            if not examples:
                # Every metric would be 0, a perfect loss.
                raise ConfigError(
                    "There is nothing to evaluate: dataset_fn made no example "
                    "of --validation_data. Received: "
                    f"{sum(r.count for r in self._ranges)} records"
                )
            values = await self._side.merge(
                self._states, epoch=epoch, step=step
            )
            self._history.evaluations.append(Point(step, epoch, values))
            self.evaluated_at = step
            _LOGGER.info("Evaluation at step %d: %s", step, values)
            await self._hook("on_test_end", epoch=epoch, step=step, logs=values)
        finally:
            self.running = self._dispatch.interrupting = False
            self._states = None
            self.seconds += time.monotonic() - start
            self._changes.notify()
        return values
