"""The worker's threads around the main thread's compiled step."""

import enum
import threading
from collections.abc import Callable
from typing import Any, Protocol

from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2, ps_pb2
from elastic_keras.worker import items
from elastic_keras.worker.channel import Channel, Closed
from elastic_keras.worker.client import PsClient
from elastic_keras.worker.feeder import Feeder, TaskData
from elastic_keras.worker.flow import Flow
from elastic_keras.worker.master_client import (
    MasterClient,
    is_unknown_worker,
)
from elastic_keras.worker.puller import Puller
from elastic_keras.worker.pusher import Pusher
from elastic_keras.worker.reservations import Reservations
from elastic_keras.worker.task_run import TaskRun
from elastic_keras.worker.values import Pulled, Push, StepGradients

# Batches whose ids are known before they are pulled for.
_READY_BATCHES = 4
# Most seconds that a lost worker's last steps take to land.
_LANDING_SECONDS = 30.0


class Outcome(enum.Enum):
    """Why a pipeline ended."""

    JOB_OVER = "job over"
    LOST = "lost"


class Computing(Protocol):
    """What the main thread does between pull and push.

    `compute`, `begin_task` and `end_task` may raise anything that the user's
    code raises.
    """

    def begin_task(self) -> None:
        """Starts the metrics of a training task."""

    def compute(
        self, train: items.TrainBatch, pulled: Pulled, *, again: bool
    ) -> StepGradients:
        """Computes a batch's gradients.

        Args:
            train: The batch.
            pulled: The parameters to compute on.
            again: The batch was computed before and is in the metrics.
        """

    def end_task(self) -> master_pb2.MetricStates:
        """Returns the metrics' states of the training task."""


class Pipeline:
    """Trains batches while others are made, pulled and pushed.

    Four threads: data, pull, this object's caller (the step), push. Between
    them lie channels in order; a batch that a shard refuses comes back to
    the main thread before everything else.

    Args:
        client: The shards.
        master: The master; a pipeline lives as long as its worker number.
        computing: The compiled step and its metrics.
        open_data: Opens a training task's data.
        other_task: Does any other task and reports it.
        describe: Turns a user's exception into a report's fields.
        window: Most steps in flight.
        reserve: Whether the master counts steps before they start.
    """

    def __init__(
        self,
        *,
        client: PsClient,
        master: MasterClient,
        computing: Computing,
        open_data: Callable[[master_pb2.Task], TaskData],
        other_task: Callable[[master_pb2.Task], None],
        describe: Callable[[BaseException], dict[str, Any]],
        window: int,
        reserve: bool,
    ) -> None:
        self._client = client
        self._master = master
        self._computing = computing
        self._other_task = other_task
        self._describe = describe
        self._flow = Flow(window)
        self._ready: Channel[Any] = Channel(_READY_BATCHES)
        self._computed: Channel[items.ComputedBatch | items.AllComputed] = (
            Channel()
        )
        self._reservations = Reservations(master) if reserve else None
        self._feeder = Feeder(
            get_task=master.get_task,
            open_data=open_data,
            progress=self._progress,
            report=self._report,
            ready=self._ready,
        )
        self._puller = Puller(
            pull=client.pull,
            ready=self._ready,
            flow=self._flow,
            reservations=self._reservations,
        )
        self._pusher = Pusher(
            push=client.push,
            computed=self._computed,
            flow=self._flow,
            reservations=self._reservations,
        )
        self._run: TaskRun | None = None
        self._stopped = False

    @property
    def flow(self) -> Flow:
        """The main thread's inbox and window."""
        return self._flow

    def end(self, outcome: Outcome) -> None:
        """Ends the pipeline from another thread, before its next step."""
        over = outcome is Outcome.JOB_OVER
        self._flow.put_urgent(items.JobOver() if over else items.Lost())

    def stop_training(self) -> None:
        """Drops the batches that are not computed and hands tasks back.

        From any thread; the main thread's batch is pushed.
        """
        if self._stopped:
            return
        self._stopped = True
        self._feeder.stop_training()
        # The channel may be full, and the main thread must not wait for it.
        threading.Thread(
            target=self._guard,
            args=(lambda: self._ready.put(items.EndTraining()),),
            name="stop",
            daemon=True,
        ).start()

    def run(self) -> Outcome:
        """Works until the job is over or the master lost this worker.

        Raises:
            RpcError: The master or a shard cannot be reached.
        """
        threads = {
            "data": self._feeder.run,
            "pull": self._puller.run,
            "push": self._pusher.run,
        }
        for name, work in threads.items():
            threading.Thread(
                target=self._guard, args=(work,), name=name, daemon=True
            ).start()
        try:
            while True:
                item = self._flow.get()
                if isinstance(item, items.JobOver):
                    return Outcome.JOB_OVER
                if isinstance(item, items.Lost):
                    return self._lost()
                self._handle(item)
        except RpcError as error:
            if not is_unknown_worker(error):
                raise
            return self._lost()
        finally:
            for end in (self._flow, self._ready, self._computed):
                end.close()

    def _lost(self) -> Outcome:
        # Others have the tasks by now, or a new master will give them out.
        self._feeder.drop_all(TaskRun.abandon)
        # What is computed lands first: it is not to be computed again, and
        # nobody counts on a worker's steps before it joins again.
        landed = threading.Event()
        self._computed.put(items.AllComputed(landed.set))
        landed.wait(_LANDING_SECONDS)
        return Outcome.LOST

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Closed:
            pass
        except RpcError as error:
            if is_unknown_worker(error):
                self._flow.put_urgent(items.Lost())
            else:
                self._flow.fail(error)
        except BaseException as error:
            self._flow.fail(error)

    def _handle(self, item: Any) -> None:
        if isinstance(item, items.PulledBatch):
            self._step(item)
        elif isinstance(item, items.Refused):
            self._recompute(item)
        elif isinstance(item, items.TaskEnd):
            self._end_task(item)
        elif isinstance(item, items.TaskError):
            # Its batches are on their way, and those of the next task with
            # them: only the report waits.
            failed = self._describe(item.error)
            item.run.end(master_pb2.ReportTaskRequest(**failed))
        elif isinstance(item, items.OtherTask):
            self._drain()
            self._other_task(item.task)
            item.done()
        elif isinstance(item, items.Interrupt):
            self._drain()
            self._evaluate()
            item.resume()
        elif isinstance(item, items.StopTraining):
            self._drain()
            self._feeder.drop_all(self._hand_back)
            item.resume()
        else:
            raise TypeError(f"Unknown item. Received: item={item!r}")

    def _step(self, item: items.PulledBatch) -> None:
        train = item.train
        if train.run.dropped:
            self._give_up(item)
            return
        try:
            self._switch_to(train.run)
            gradients = self._computing.compute(train, item.pulled, again=False)
        except Exception as error:
            self._give_up(item)
            self._fail(train.run, error)
            return
        self._computed.put(_push(item, item.pulled, gradients))

    def _recompute(self, refused: items.Refused) -> None:
        item = refused.computed.pulled
        batch = item.train.batch
        pulled = self._client.pull(
            batch.ids,
            mode=ps_pb2.TRAIN,
            member=item.member,
            step=item.step,
            recompute=refused.shards,
        )
        try:
            gradients = self._computing.compute(item.train, pulled, again=True)
        except Exception as error:
            self._give_up(item)
            self._fail(item.train.run, error)
            return
        # Past the queue: the shards may be holding others back for it.
        self._pusher.push(_push(item, pulled, gradients), refused.shards)

    def _end_task(self, item: items.TaskEnd) -> None:
        if item.run.dropped:
            return
        try:
            self._switch_to(item.run)
            states = self._computing.end_task()
        except Exception as error:
            self._fail(item.run, error)
            return
        item.report.states.CopyFrom(states)
        item.run.end(item.report)

    def _hand_back(self, run: TaskRun) -> None:
        """Releases a task of which some batches may have been trained."""
        if run is not self._run or run.reported:
            run.release()
            return
        try:
            run.release(self._computing.end_task())
        except Exception as error:
            run.fail(**self._describe(error))

    def _switch_to(self, run: TaskRun) -> None:
        if run is not self._run:
            self._run = run
            self._computing.begin_task()

    def _give_up(self, item: items.PulledBatch) -> None:
        item.train.run.landed()
        self._flow.leave()
        if self._reservations is not None:
            self._reservations.settle(returned=1)

    def _fail(self, run: TaskRun, error: BaseException) -> None:
        """Reports the user's exception and starts afresh.

        Steps that were pulled for will not be pushed; all training tasks go
        back so that the next one comes with a member number of its own.
        """
        run.fail(**self._describe(error))
        self._feeder.drop_all(TaskRun.release)

    def _evaluate(self) -> None:
        while True:
            task = self._master.get_task(interrupted=True)
            if task.kind == master_pb2.TASK_WAIT:
                return
            if task.kind == master_pb2.TASK_STOP:
                self._flow.put_urgent(items.JobOver())
                return
            self._other_task(task)

    def _drain(self) -> None:
        """Lets every step in flight land, recomputing what is refused."""
        while (item := self._flow.get_urgent()) is not None:
            if isinstance(item, items.Refused):
                self._recompute(item)
            else:
                self._flow.put_urgent(item)
                return

    def _progress(self, task: master_pb2.Task) -> frozenset[int]:
        return self._client.progress(task.epoch, task.task)

    def _report(self, request: master_pb2.ReportTaskRequest) -> None:
        if self._reservations is not None:
            self._reservations.flush()
        self._master.report(request)


def _push(
    item: items.PulledBatch, pulled: Pulled, gradients: StepGradients
) -> items.ComputedBatch:
    train = item.train
    push = Push(
        key=train.run.key(train.index),
        examples=train.batch.examples,
        member=item.member,
        step=item.step,
        versions=pulled.versions,
        ids=train.batch.ids,
        gradients=gradients,
    )
    return items.ComputedBatch(item, push)
