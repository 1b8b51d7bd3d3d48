"""Evaluation, merge and callback tasks, from order to result."""

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

from elastic_keras.master.changes import Changes
from elastic_keras.master.dispatch import Dispatch
from elastic_keras.master.states import MetricSum
from elastic_keras.master.work import WorkItem
from elastic_keras.wire.proto import master_pb2


class SideTasks:
    """Has workers do what is not training, and waits for it.

    Args:
        dispatch: Hands the tasks out.
        changes: Notified when one is done.
    """

    def __init__(self, dispatch: Dispatch, changes: Changes) -> None:
        self._dispatch = dispatch
        self._changes = changes
        self._numbers = itertools.count()
        # The tasks of the newest `read`, in the order of the records.
        self.reading: list[WorkItem] = []

    async def evaluate(
        self, ranges: Sequence[Any], *, epoch: int, step: int
    ) -> int:
        """Has all workers evaluate ranges of records.

        Their metric states go to `Dispatch.on_states`.

        Args:
            ranges: The records.
            epoch: The epoch.
            step: The optimizer's iterations.

        Returns:
            Number of examples evaluated.
        """
        kind = master_pb2.TASK_EVALUATE
        await self.read(kind, ranges, epoch=epoch, step=step)
        return sum(item.examples for item in self.reading)

    async def read(
        self, kind: int, ranges: Sequence[Any], *, epoch: int, step: int
    ) -> None:
        """Has all workers read ranges of records.

        Args:
            kind: TASK_EVALUATE or TASK_PREDICT.
            ranges: The records.
            epoch: The epoch.
            step: The optimizer's iterations.
        """
        self.reading = [
            WorkItem(
                kind,
                next(self._numbers),
                epoch=epoch,
                range=record_range,
                step=step,
            )
            for record_range in ranges
        ]
        await self._run(self.reading)

    async def merge(
        self, states: MetricSum, *, epoch: int, step: int
    ) -> dict[str, float]:
        """Has one worker work out metric results.

        Args:
            states: The metrics' states, added up.
            epoch: The epoch.
            step: The optimizer's iterations.

        Returns:
            Value by metric; empty without states.
        """
        if states.empty:
            return {}
        item = WorkItem(
            master_pb2.TASK_MERGE,
            next(self._numbers),
            epoch=epoch,
            states=states.to_proto(),
            step=step,
        )
        await self._run([item])
        result = json.loads(item.result or "{}")
        return {name: float(value) for name, value in result.items()}

    async def callback(
        self, hook: str, *, epoch: int, step: int, logs: dict[str, float]
    ) -> bool:
        """Has the chief run a hook of the Keras callbacks.

        Args:
            hook: Its name, e.g. `on_epoch_end`.
            epoch: The epoch.
            step: The optimizer's iterations.
            logs: Its logs.

        Returns:
            Whether a callback asked for training to stop.
        """
        item = WorkItem(
            master_pb2.TASK_CALLBACK,
            next(self._numbers),
            epoch=epoch,
            hook=hook,
            logs=logs,
            step=step,
        )
        await self._run([item])
        return bool(json.loads(item.result or "{}").get("stop"))

    async def _run(self, items: list[WorkItem]) -> None:
        self._dispatch.side.add(items)
        self._changes.notify()
        await wait_until(
            self._changes, lambda: all(item.finished for item in items)
        )


async def wait_until(changes: Changes, condition: Callable[[], bool]) -> None:
    """Waits until a condition holds.

    Args:
        changes: Notified whenever it may have come to hold.
        condition: Looked at now and after each change.
    """
    while not condition():
        await changes.wait()
