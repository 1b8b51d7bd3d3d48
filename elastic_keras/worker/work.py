"""What a worker works with: model, steps, data and shards."""

from typing import Any

import keras
import numpy as np

from elastic_keras.config import JobConfig
from elastic_keras.worker.callbacks import (
    JobCallbacks,
    check_tables,
    set_modes,
)
from elastic_keras.worker.client import PsClient
from elastic_keras.worker.computing import TrainComputing
from elastic_keras.worker.failures import failure
from elastic_keras.worker.grouping import GroupedIds
from elastic_keras.worker.job_data import JobData
from elastic_keras.worker.master_client import MasterClient
from elastic_keras.worker.model import PreparedModel
from elastic_keras.worker.observers import make_observers
from elastic_keras.worker.other_tasks import OtherTasks
from elastic_keras.worker.pipeline import Pipeline
from elastic_keras.worker.predicting import Predicting
from elastic_keras.worker.running_logs import RunningLogs
from elastic_keras.worker.stats import WorkerStats
from elastic_keras.worker.step import Steps
from elastic_keras.worker.tensorboard import fit_tensorboard
from elastic_keras.worker.watchdog import (
    Watchdog,
    WatchedComputing,
    watched,
)
from elastic_keras.worker.window import window


class ModelWork:
    """What outlives a worker number: one model and all around it.

    Args:
        config: The job.
        prepared: The model.
        steps: Its compiled steps.
        data: The job's data, made for this model.
        client: The shards, joined.
        stats: Where steps are counted for the heartbeat.
        watchdog: Watches steps and data.
        predicting: Takes predictions; `None` in a job without any.
        summaries: Folder of this worker's TensorBoard run.
    """

    def __init__(
        self,
        config: JobConfig,
        prepared: PreparedModel,
        steps: Steps,
        data: JobData,
        client: PsClient,
        stats: WorkerStats,
        watchdog: Watchdog,
        predicting: Predicting | None = None,
        summaries: str = "",
    ) -> None:
        self._config = config
        self._summaries = summaries
        self._prepared = prepared
        self._steps = steps
        self._data = data
        self._client = client
        self._watchdog = watchdog
        self._predicting = predicting
        self._train_logs = RunningLogs(steps.train_metrics)
        self._test_logs = RunningLogs(steps.evaluation_metrics)
        self._computing = TrainComputing(steps, stats, running=self._train_logs)
        self._callbacks: JobCallbacks | None = None
        self._observers = make_observers(config, summaries, prepared.signature)
        self._present: tuple[MasterClient, Pipeline] | None = None

    def use_callbacks(self, callbacks: list[keras.callbacks.Callback]) -> None:
        """Puts the module's callbacks around the model.

        Raises:
            ConfigError: One of them cannot work with PS tables.
        """
        signature = self._prepared.signature
        tables = [table.name for table in signature.tables]
        check_tables(callbacks, tables)
        fit_tensorboard(callbacks, tables, self._summaries)
        set_modes(callbacks, self._steps.evaluation_metrics.modes())
        self._callbacks = JobCallbacks(
            callbacks,
            self._prepared.model,
            epochs=self._config.training.num_epochs,
            optimizers=list(self._prepared.optimizers),
            set_learning_rate=self._client.set_learning_rate,
            refresh=self._refresh,
            stop_training=self._stop_training,
            running=(self._train_logs, self._test_logs),
            train_function=lambda: self._steps.traced("train"),
        )

    def be_chief(self, chief: bool) -> None:
        """Says whether this worker runs the batch hooks."""
        self._computing.hooks = self._callbacks if chief else None
        self._computing.observers = self._observers if chief else ()

    def close(self) -> None:
        """Says that no step follows."""
        for observer in self._observers:
            observer.close()

    def pipeline(self, master: MasterClient) -> Pipeline:
        """Makes the pipeline of one worker number."""
        config = self._config
        describe = self._describe
        open_data = watched(self._data.open, self._watchdog)
        others = OtherTasks(
            client=self._client,
            open_data=open_data,
            steps=self._steps,
            computing=self._computing,
            callbacks=self._callbacks,
            running=self._test_logs,
            report=master.report,
            describe=describe,
            watchdog=self._watchdog,
            predicting=self._predicting,
        )
        pipeline = Pipeline(
            client=self._client,
            master=master,
            computing=WatchedComputing(self._computing, self._watchdog),
            open_data=open_data,
            other_task=others.do,
            describe=describe,
            window=window(config.staleness, config.cluster.num_workers),
            reserve=config.counts_steps,
        )
        self._present = master, pipeline
        return pipeline

    def _stop_training(self) -> None:
        """Ends training for all: a callback of the chief wants it."""
        if self._present is not None:
            master, pipeline = self._present
            # First the master: it would hand out the next task.
            master.stop_training()
            pipeline.stop_training()

    def _describe(self, error: BaseException) -> dict[str, Any]:
        return failure(
            error,
            first_step=not self._computing.succeeded,
            spec=self._data.spec,
        )

    def _refresh(self) -> None:
        refresh(self._prepared, self._client, self._computing)


def refresh(
    prepared: PreparedModel, client: PsClient, computing: TrainComputing
) -> None:
    """Brings a model the newest dense parameters, without any row.

    Args:
        prepared: The model.
        client: The shards.
        computing: Assigns the parameters.
    """
    nothing = GroupedIds(np.empty(0, np.int64), (0,) * (client.num_shards + 1))
    pulled = client.pull([nothing] * len(prepared.tables))
    computing.assign(pulled.dense)
    prepared.optimizer.iterations.assign(pulled.iterations)
