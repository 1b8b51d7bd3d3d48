"""The order of things in a job that trains nothing."""

from collections.abc import Callable, Sequence
from typing import Any

from elastic_keras.master.changes import Changes
from elastic_keras.master.dispatch import Dispatch
from elastic_keras.master.evaluation import Evaluation
from elastic_keras.master.history import History
from elastic_keras.master.outcome import failed
from elastic_keras.master.shards import ShardCalls
from elastic_keras.master.side_tasks import SideTasks, wait_until
from elastic_keras.master.work import WorkItem
from elastic_keras.wire.proto import master_pb2


class ReadingFlow:
    """Evaluates or predicts every record once.

    Args:
        dispatch: Hands tasks out.
        shards: The shards, which hold a trained model.
        changes: Notified of changes.
        history: Gets metrics.
        command: `evaluate` or `predict`.
        ranges: The data.
        clock: Seconds, from any origin.
    """

    def __init__(
        self,
        *,
        dispatch: Dispatch,
        shards: ShardCalls,
        changes: Changes,
        history: History,
        command: str,
        ranges: Sequence[Any],
        clock: Callable[[], float],
    ) -> None:
        self._dispatch = dispatch
        self._shards = shards
        self._changes = changes
        self._command = command
        self._ranges = ranges
        self._clock = clock
        self._side = SideTasks(dispatch, changes)
        self.evaluation = Evaluation(
            dispatch=dispatch,
            side=self._side,
            shards=shards,
            changes=changes,
            history=history,
            ranges=ranges,
            hook=_no_hook,
        )
        # Iterations of the model that is read.
        self.step = 0
        # When workers could begin.
        self.began_at: float | None = None
        dispatch.on_states = self._add_states

    @property
    def phase(self) -> str:
        """`JobStatus.phase` while it runs."""
        if self.began_at is None:
            return "starting"
        return "evaluating" if self._command == "evaluate" else "predicting"

    @property
    def records_expected(self) -> int:
        """Records of the data."""
        return sum(r.count for r in self._ranges)

    @property
    def finished(self) -> list[WorkItem]:
        """The tasks that are done."""
        return [item for item in self._side.reading if item.finished]

    async def run(self) -> None:
        """Runs the job to its end.

        Raises:
            ConfigError: There was nothing to evaluate.
            JobEnd: Not every record was read.
        """
        dispatch = self._dispatch
        await wait_until(self._changes, lambda: dispatch.membership.alive > 0)
        self.began_at = self._clock()
        self.step = await self._shards.flush()
        if self._command == "evaluate":
            await self.evaluation.run(0)
        else:
            await self._side.read(
                master_pb2.TASK_PREDICT, self._ranges, epoch=0, step=self.step
            )
        read = sum(item.records + item.bad_records for item in self.finished)
        if read != self.records_expected:
            raise failed(
                f"Tasks read {read} records, but the data holds "
                f"{self.records_expected}."
            )

    def _add_states(
        self, item: WorkItem, states: master_pb2.MetricStates
    ) -> None:
        if item.kind == master_pb2.TASK_EVALUATE:
            self.evaluation.add(states)


async def _no_hook(name: str, **arguments: Any) -> None:
    """Calls no callback: they belong to training."""
