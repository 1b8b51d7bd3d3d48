"""Tasks that train nothing: evaluation, prediction, metrics, callbacks."""

import contextlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker import items
from elastic_keras.worker.callbacks import JobCallbacks
from elastic_keras.worker.client import PsClient
from elastic_keras.worker.computing import (
    TrainComputing,
    decode_states,
    encode_states,
)
from elastic_keras.worker.feeder import TaskData
from elastic_keras.worker.predicting import Predicting
from elastic_keras.worker.running_logs import RunningLogs
from elastic_keras.worker.step import Steps
from elastic_keras.worker.values import Pulled
from elastic_keras.worker.watchdog import Watchdog


class OtherTasks:
    """Does a task in the main thread and reports it.

    Args:
        client: The shards.
        open_data: Opens an evaluation task's data.
        steps: The compiled steps.
        computing: Assigns dense parameters to the model.
        callbacks: The module's callbacks; `None` if there are none.
        running: The logs of the hooks around an evaluation's batches.
        report: Sends a report to the master.
        describe: Turns a user's exception into a report's fields.
        watchdog: Watches the evaluation's steps, and what the user's hooks
            and metrics do.
        predicting: Takes the outputs of prediction tasks; `None` in a job
            that has none.
    """

    def __init__(
        self,
        *,
        client: PsClient,
        open_data: Callable[[master_pb2.Task], TaskData],
        steps: Steps,
        computing: TrainComputing,
        callbacks: JobCallbacks | None,
        running: RunningLogs,
        report: Callable[[master_pb2.ReportTaskRequest], None],
        describe: Callable[[BaseException], dict[str, Any]],
        watchdog: Watchdog,
        predicting: Predicting | None = None,
    ) -> None:
        self._client = client
        self._open_data = open_data
        self._steps = steps
        self._computing = computing
        self._callbacks = callbacks
        self._running = running
        self._report = report
        self._describe = describe
        self._watchdog = watchdog
        self._predicting = predicting

    def do(self, task: master_pb2.Task) -> None:
        """Does one task; a user's exception becomes its report."""
        work = {
            master_pb2.TASK_EVALUATE: self._evaluate,
            master_pb2.TASK_PREDICT: self._predict,
            master_pb2.TASK_MERGE: self._merge,
            master_pb2.TASK_CALLBACK: self._call_back,
        }[task.kind]
        try:
            report = work(task)
        except RpcError:
            raise
        except Exception as error:
            report = master_pb2.ReportTaskRequest(**self._describe(error))
        report.lease = task.lease
        self._report(report)

    def _evaluate(self, task: master_pb2.Task) -> master_pb2.ReportTaskRequest:
        opened = self._open_data(task)
        metrics = self._steps.evaluation_metrics
        metrics.reset()
        batches = examples = 0
        hooks = self._test_hooks()
        for batch, pulled in pulled_ahead(self._client, opened.batches()):
            self._computing.assign(pulled.dense)
            if hooks is not None:
                with self._hook("on_test_batch_begin"):
                    hooks.test_batch_begin()
            with self._watchdog.watch("an evaluation step"):
                self._steps.evaluate(batch.data, pulled.rows, batch.inverse)
            if hooks is not None:
                with self._hook("on_test_batch_end"):
                    hooks.test_batch_end(self._running.result())
            batches += 1
            examples += batch.examples
        states = metrics.state()
        if hooks is not None:
            self._running.end_task(states)
        report = opened.report()
        report.batches = batches
        report.examples = examples
        report.states.CopyFrom(encode_states(states))
        return report

    def _predict(self, task: master_pb2.Task) -> master_pb2.ReportTaskRequest:
        assert self._predicting is not None
        opened = self._open_data(task)
        self._predicting.begin()
        batches = examples = 0
        for batch, pulled in pulled_ahead(self._client, opened.batches()):
            self._computing.assign(pulled.dense)
            with self._watchdog.watch("a prediction step"):
                self._predicting.add(
                    self._steps.predict(batch.data, pulled.rows, batch.inverse)
                )
            batches += 1
            examples += batch.examples
        self._predicting.end(task.task)
        report = opened.report()
        report.batches = batches
        report.examples = examples
        return report

    def _test_hooks(self) -> JobCallbacks | None:
        """Returns the callbacks if they want to see this worker's batches."""
        # Only the chief has hooks around training batches.
        if self._callbacks is None or self._computing.hooks is None:
            return None
        wanted = self._callbacks.wants_test_batches
        return self._callbacks if wanted else None

    def _merge(self, task: master_pb2.Task) -> master_pb2.ReportTaskRequest:
        states = decode_states(task.states)
        with self._watchdog.watch("computing the metrics' results"):
            values = self._steps.evaluation_metrics.result_from(states)
        return master_pb2.ReportTaskRequest(
            result=json.dumps({n: float(v) for n, v in values.items()})
        )

    def _call_back(self, task: master_pb2.Task) -> master_pb2.ReportTaskRequest:
        result = {"stop": False}
        if self._callbacks is not None:
            with self._hook(task.hook):
                result = self._callbacks.run(task)
        return master_pb2.ReportTaskRequest(result=json.dumps(result))

    def _hook(self, name: str) -> contextlib.AbstractContextManager[None]:
        # A callback may have a lot to do, to write a model or a plot.
        return self._watchdog.watch(f"the callbacks' {name}", may_last=True)


def pulled_ahead(
    client: PsClient, batches: Iterator[items.Batch]
) -> Iterator[tuple[items.Batch, Pulled]]:
    """Pulls for the next batch while the present one is computed.

    Args:
        client: The shards, which are only read.
        batches: The batches.
    """
    with ThreadPoolExecutor(1, "read") as pool:
        ahead = None
        for batch in batches:
            pull = pool.submit(client.pull, batch.ids)
            if ahead is not None:
                yield ahead[0], ahead[1].result()
            ahead = (batch, pull)
        if ahead is not None:
            yield ahead[0], ahead[1].result()
