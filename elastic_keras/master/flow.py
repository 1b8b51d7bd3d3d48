"""The order of things in a training job."""

import asyncio
import collections
import enum
import logging
from collections.abc import (
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

from elastic_keras.config import DataOptions, TrainingOptions
from elastic_keras.master.callbacks import Callbacks
from elastic_keras.master.changes import Changes
from elastic_keras.master.dispatch import Dispatch
from elastic_keras.master.early_stopping import EarlyStopping
from elastic_keras.master.end_checks import steps_done
from elastic_keras.master.evaluation import Evaluation
from elastic_keras.master.history import History, Point
from elastic_keras.master.resting import RestingSnapshots
from elastic_keras.master.shards import ShardCalls
from elastic_keras.master.side_tasks import SideTasks, wait_until
from elastic_keras.master.states import MetricSum
from elastic_keras.master.tasks import TrainingTasks
from elastic_keras.master.work import WorkItem
from elastic_keras.wire.proto import master_pb2

_LOGGER = logging.getLogger(__name__)


class EndedBy(enum.Enum):
    """Why training ended."""

    EPOCHS = "epochs"
    MAX_STEPS = "max_steps"
    EARLY_STOPPING = "early_stopping"
    CALLBACK = "callback"


class JobFlow:
    """Trains epoch after epoch, evaluates in between, and comes to an end.

    Tasks of the next epoch follow at once unless something has to happen
    between the two on resting parameters.

    Args:
        dispatch: Hands tasks out.
        shards: Flushed and finalized.
        changes: Notified of changes.
        history: Gets metrics.
        training: `--num_epochs` and when to evaluate and stop.
        data: Whether to shuffle.
        seed: The job's seed.
        ranges: The training data.
        validation: The validation data; may be empty.
        leases: Where lease numbers come from.
        resting: Takes snapshots while the parameters rest.
        keep: Writes down how the job stands, for the next master.
    """

    def __init__(
        self,
        *,
        dispatch: Dispatch,
        shards: ShardCalls,
        changes: Changes,
        history: History,
        training: TrainingOptions,
        data: DataOptions,
        seed: int,
        ranges: Sequence[Any],
        validation: Sequence[Any],
        leases: Iterator[int],
        resting: RestingSnapshots,
        keep: Callable[[], Awaitable[None]],
    ) -> None:
        self._dispatch = dispatch
        self._shards = shards
        self._changes = changes
        self._history = history
        self._options = training
        self._validation = validation
        self._tasks = TrainingTasks(
            ranges,
            num_epochs=training.num_epochs,
            seed=seed,
            shuffle=data.shuffle,
            leases=leases,
        )
        self._early: EarlyStopping | None = None
        if training.early_stopping_patience:
            self._early = EarlyStopping(
                training.early_stopping_metric,
                training.early_stopping_patience,
            )
        self._side = SideTasks(dispatch, changes)
        self._callbacks = Callbacks(self._side)
        self.evaluation = Evaluation(
            dispatch=dispatch,
            side=self._side,
            shards=shards,
            changes=changes,
            history=history,
            ranges=validation,
            hook=self._callbacks.run,
        )
        self._train_states: dict[int, MetricSum] = collections.defaultdict(
            MetricSum
        )
        self._merges: list[asyncio.Task[None]] = []
        self._resting = resting
        self._keep = keep
        self._finalized = False
        self._resumed = False
        # Epochs whose end is over: evaluated, their hooks called.
        self._epochs_ended = 0
        # The boundary whose evaluation and snapshot are over.
        self._handled = 0
        self._ended: EndedBy | None = None
        self.ended_by = EndedBy.EPOCHS
        dispatch.on_states = self._add_states

    def to_state(self) -> dict[str, Any]:
        """Returns where training stands, as plain data."""
        return {
            "tasks": self._tasks.to_state(),
            "metrics": {
                str(epoch): states.to_state()
                for epoch, states in self._train_states.items()
                if not states.empty
            },
            "callbacks": self._callbacks.to_state(),
            "stop_wanted": self._dispatch.stop_wanted,
            "evaluated_at": self.evaluation.evaluated_at,
            "epochs_ended": self._epochs_ended,
            "handled": self._handled,
            "finalized": self._finalized,
            "ended": self._ended.value if self._ended else "",
        }

    def restore(
        self, state: Mapping[str, Any] | None, *, begun: int, same_job: bool
    ) -> None:
        """Goes on where another master was; call it before `run`.

        The history must be restored before.

        Args:
            state: What its `to_state` returned; `None` where nothing was
                written down.
            begun: The newest epoch that the shards know of; -1 for none.
            same_job: Whether it was this job's; another's may have ended,
                and this one goes on.

        Raises:
            ConfigError: It is of other data.
        """
        self._resumed = True
        if state is None:
            self._tasks.restore(None, begun)
            self._dispatch.restore(self._tasks.undone(), 0)
            return
        self._tasks.restore(state["tasks"], begun)
        for epoch, text in state["metrics"].items():
            self._train_states[int(epoch)] = MetricSum.from_state(text)
        self._callbacks.restore(state["callbacks"])
        self.evaluation.evaluated_at = state["evaluated_at"]
        self._epochs_ended = state["epochs_ended"]
        self._handled = state["handled"]
        if same_job:
            self._finalized = state["finalized"]
            if state["ended"]:
                self._ended = EndedBy(state["ended"])
            if state["stop_wanted"]:
                self._dispatch.stop_training()
        else:
            self._callbacks.stop = False
            done = self._tasks.epochs_done
            self._epochs_ended = min(self._epochs_ended, done)
        if self._early is not None:
            for point in self._history.evaluations:
                self._early.update(point.values)
        self._dispatch.restore(self._tasks.undone(), self._handled)

    @property
    def _barrier(self) -> bool:
        """Whether workers rest at the end of each epoch."""
        per_epoch = self._validation and not self._options.evaluation_steps
        return bool(per_epoch or self._callbacks.enabled)

    async def run(self) -> None:
        """Runs the job to its end.

        Raises:
            ConfigError: An early stopping metric that does not exist.
        """
        dispatch = self._dispatch
        await wait_until(self._changes, lambda: dispatch.membership.alive > 0)
        self._resting.start()
        self._callbacks.enabled = any(
            worker.has_callbacks for worker in dispatch.membership.workers
        )
        try:
            await self._train()
        finally:
            self._resting.close()
            for merge in self._merges:
                merge.cancel()

    async def _train(self) -> None:
        self._dispatch.training = self._tasks
        await self._callbacks.run("on_train_begin")
        num_epochs = self._options.num_epochs
        if not self._barrier:
            self._tasks.allow(num_epochs - 1)
        self._merges = [
            asyncio.create_task(self._merge_epoch(epoch))
            for epoch in range(self._epochs_ended)
            if epoch in self._train_states
        ]
        while self._epochs_ended < num_epochs and self._ended is None:
            epoch = self._epochs_ended
            await self._callbacks.run("on_epoch_begin", epoch=epoch)
            self._tasks.allow(epoch)
            self._changes.notify()
            self._ended = await self._epoch(epoch)
            self._epochs_ended += 1
            await self._keep()
        self.ended_by = self._ended or EndedBy.EPOCHS
        epoch = self._epochs_ended - 1
        await self._stop_training()
        await self._finish(epoch)
        await asyncio.gather(*self._merges)
        logs = self._history.epoch_logs(epoch)
        await self._callbacks.run("on_train_end", epoch=epoch, logs=logs)

    async def _epoch(self, epoch: int) -> EndedBy | None:
        tasks, dispatch = self._tasks, self._dispatch
        budget = dispatch.budget
        last = epoch == self._options.num_epochs - 1
        ended = None
        if self._early is not None and self._early.stopped:
            # It was decided by a master that ended before it was done.
            ended = EndedBy.EARLY_STOPPING
        while ended is None:
            await wait_until(
                self._changes,
                lambda: (
                    tasks.epoch_done(epoch)
                    or budget.at_boundary
                    or budget.resting
                    or dispatch.stop_wanted
                ),
            )
            if dispatch.stop_wanted:
                # As in Keras, which then ends the epoch with its evaluation.
                ended = EndedBy.CALLBACK
                break
            done = tasks.epoch_done(epoch)
            if budget.at_boundary and not (done and last):
                ended = await self._boundary(epoch)
            elif done:
                break
            else:
                await self._resting.take(epoch)
        if ended is not None:
            await self._stop_training()
        return await self._end_epoch(epoch, ended, last or ended is not None)

    async def _boundary(self, epoch: int) -> EndedBy | None:
        budget = self._dispatch.budget
        if budget.finished:
            # The last evaluation is that of the epoch's end.
            return EndedBy.MAX_STEPS
        stop = False
        if budget.evaluates and not await self._was_evaluated():
            stop = self._stops_early(await self.evaluation.run(epoch))
        if self._callbacks.stop:
            return EndedBy.CALLBACK
        assert budget.boundary is not None
        self._handled = budget.boundary
        if budget.snapshots and not stop:
            await self._resting.take(epoch)
        await self._keep()
        budget.advance()
        self._changes.notify()
        return EndedBy.EARLY_STOPPING if stop else None

    async def _end_epoch(
        self, epoch: int, ended: EndedBy | None, last: bool
    ) -> EndedBy | None:
        if self._history.has_epoch(epoch):
            # By a master that ended before the end of the epoch did.
            pass
        elif self._barrier or last:
            await self._merge_epoch(epoch)
        else:
            # Done by a worker when it has nothing to train.
            merge = asyncio.create_task(self._merge_epoch(epoch))
            self._merges.append(merge)
        if last:
            await self._finalize()
        per_epoch = not self._options.evaluation_steps
        evaluates = bool(self._validation) and (last or per_epoch)
        if evaluates and not await self._is_evaluated():
            results = await self.evaluation.run(epoch)
            if self._stops_early(results):
                ended = ended or EndedBy.EARLY_STOPPING
        logs = self._history.epoch_logs(epoch)
        await self._callbacks.run("on_epoch_end", epoch=epoch, logs=logs)
        if self._callbacks.stop:
            ended = ended or EndedBy.CALLBACK
        return ended

    async def _finish(self, epoch: int) -> None:
        """Leaves final parameters, and an evaluation of them."""
        if self._finalized:
            return
        await self._finalize()
        averaged = any(s.uses_ema for s in await self._shards.status())
        if self._validation and averaged:
            await self.evaluation.run(epoch)

    async def _finalize(self) -> None:
        self._dispatch.stopping = True
        self._changes.notify()
        if self._finalized:
            return
        await self._shards.flush()
        await self._shards.finalize()
        self._finalized = True
        await self._keep()

    async def _was_evaluated(self) -> bool:
        """Whether a former master evaluated here and had not gone on."""
        return self._resumed and await self._is_evaluated()

    async def _is_evaluated(self) -> bool:
        """Whether the newest evaluation saw the present parameters."""
        evaluated_at = self.evaluation.evaluated_at
        if evaluated_at is None or evaluated_at != await self._shards.flush():
            return False
        if not self._finalized:
            return True
        return not any(s.uses_ema for s in await self._shards.status())

    async def _stop_training(self) -> None:
        """Lets no more step start and waits until all tasks are back."""
        self._dispatch.stopping = True
        self._tasks.drop()
        self._changes.notify()
        await wait_until(self._changes, lambda: not self._tasks.running)

    async def _merge_epoch(self, epoch: int) -> None:
        states = self._train_states.get(epoch, MetricSum())
        step = self._tasks.counts().batches
        if self._dispatch.stopping:
            # Tasks that were handed back do not count their batches.
            step = steps_done(await self._shards.status())
        values = await self._side.merge(states, epoch=epoch, step=step)
        if values:
            self._history.add_epoch(Point(step, epoch, values))
            _LOGGER.info("Epoch %d, trained on: %s", epoch + 1, values)
        self._train_states.pop(epoch, None)

    def _stops_early(self, results: dict[str, float]) -> bool:
        return self._early is not None and self._early.update(results)

    def _add_states(
        self, item: WorkItem, states: master_pb2.MetricStates
    ) -> None:
        if item.kind == master_pb2.TASK_TRAIN:
            self._train_states[item.epoch].add(states)
        elif item.kind == master_pb2.TASK_EVALUATE:
            self.evaluation.add(states)
