"""A model in training: its steps, its shards, and passes over data."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from elastic_keras.config import (
    ConfigError,
    StalenessOptions,
    WireOptions,
)
from elastic_keras.data.reader import Counts
from elastic_keras.in_script.compiled import Compiled
from elastic_keras.in_script.epoch import Failure, OneTask
from elastic_keras.in_script.local_shards import LocalShards
from elastic_keras.layers.context import ZeroRows, lookup_scope
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.batches import as_tensors, spec_of, unpack
from elastic_keras.worker.callbacks import JobCallbacks, check, check_tables
from elastic_keras.worker.client import PsClient
from elastic_keras.worker.computing import TrainComputing, decode_states
from elastic_keras.worker.job_data import TaskBatches
from elastic_keras.worker.lookup import Lookup
from elastic_keras.worker.metrics import MetricSet
from elastic_keras.worker.model import PreparedModel, prepare
from elastic_keras.worker.other_tasks import OtherTasks, pulled_ahead
from elastic_keras.worker.pipeline import Pipeline
from elastic_keras.worker.running_logs import RunningLogs
from elastic_keras.worker.stats import WorkerStats
from elastic_keras.worker.step import Steps
from elastic_keras.worker.watchdog import Watchdog
from elastic_keras.worker.window import window
from elastic_keras.worker.work import refresh

_PREFETCH = 2


class Session:
    """Shards and a prepared model.

    Args:
        model: The user's model.
        compiled: How it is trained.
        sample: A dataset like those that follow.
        num_ps: Number of shards.
        staleness: The bound on staleness.
        seed: Of the rows' initial values.
        threshold_bytes: Least size of a Keras Embedding that is swapped.

    Raises:
        ConfigError: The model, or what it uses, cannot run on shards.
    """

    def __init__(
        self,
        model: keras.Model,
        compiled: Compiled,
        sample: tf.data.Dataset,
        *,
        num_ps: int,
        staleness: StalenessOptions,
        seed: int,
        threshold_bytes: int,
    ) -> None:
        batch = _first(sample)
        self.prepared: PreparedModel = prepare(
            model,
            compiled.loss,
            compiled.optimizer,
            None,
            sample_batch=batch,
            seed=seed,
            threshold_bytes=threshold_bytes,
        )
        self._compiled = compiled
        self._staleness = staleness
        self._stats = WorkerStats()
        self._has_metrics = False
        self._make_steps(batch)
        self._passes = 0
        self._pipeline: Pipeline | None = None
        self.shards = LocalShards(num_ps, staleness)
        config = self.shards.config
        self._client = PsClient(
            config.ps_addresses,
            self.prepared.signature,
            job_id=config.job_id,
            wire=WireOptions(),
            token=self.shards.token,
            stats=self._stats,
        )
        self._client.join()
        self._client.init_dense(self.steps.get_dense(), self.steps.get_states())

    def close(self) -> None:
        """Ends the shards; what they hold is gone."""
        self._client.close()
        self.shards.close()

    def use_callbacks(
        self,
        callbacks: list[keras.callbacks.Callback],
        *,
        epochs: int,
        verbose: int,
        steps: int | None,
    ) -> JobCallbacks:
        """Puts callbacks around the model for a `fit` or `evaluate`.

        Args:
            callbacks: The callbacks.
            epochs: Epochs of the fit.
            verbose: What Keras's progress bar is told.
            steps: Batches of an epoch, if known.

        Raises:
            ConfigError: One of them cannot work with tables.
        """
        signature = self.prepared.signature
        check_tables(check(callbacks), [t.name for t in signature.tables])
        hooks = JobCallbacks(
            callbacks,
            self.prepared.model,
            epochs=epochs,
            optimizers=list(self.prepared.optimizers),
            set_learning_rate=self._client.set_learning_rate,
            refresh=self.refresh,
            stop_training=self._stop_training,
            running=self._running,
            verbose=verbose,
            steps=steps,
        )
        self._computing.hooks = hooks
        return hooks

    def train(self, dataset: tf.data.Dataset, epoch: int) -> dict[str, float]:
        """Trains a pass over a dataset.

        Args:
            dataset: Batches.
            epoch: The epoch, from 0.

        Returns:
            Value by metric.
        """
        self._passes += 1
        master = OneTask(
            task=self._passes,
            epoch=epoch,
            member=self.shards.begin(),
            leave=self.shards.begin,
        )
        failure = Failure()
        self._expect("train", dataset)
        self._pipeline = Pipeline(
            client=self._client,
            master=master,  # type: ignore[arg-type]
            computing=self._computing,
            open_data=lambda task: self._open(dataset, training=True),
            other_task=lambda task: None,
            describe=failure.describe,
            window=window(self._staleness, 1),
            reserve=False,
        )
        self._pipeline.run()
        self._pipeline = None
        if failure.error is not None:
            raise failure.error
        self.shards.check_finite()
        states = decode_states(master.done.states)
        return self.steps.train_metrics.result_from(states)

    def evaluate(
        self, dataset: tf.data.Dataset, hooks: JobCallbacks
    ) -> dict[str, float]:
        """Evaluates a dataset.

        Args:
            dataset: Batches.
            hooks: The callbacks around its batches.

        Returns:
            Value by metric.
        """
        self._expect("evaluate", dataset)
        failure = Failure()
        reports: list[master_pb2.ReportTaskRequest] = []
        OtherTasks(
            client=self._client,
            open_data=lambda task: self._open(dataset, training=False),
            steps=self.steps,
            computing=self._computing,
            callbacks=hooks,
            running=self._running[1],
            report=reports.append,
            describe=failure.describe,
            watchdog=Watchdog(),
        ).do(master_pb2.Task(kind=master_pb2.TASK_EVALUATE))
        if failure.error is not None:
            raise failure.error
        states = decode_states(reports[0].states)
        return self.steps.evaluation_metrics.result_from(states)

    def predict(
        self, dataset: tf.data.Dataset, shown: keras.utils.Progbar
    ) -> Any:
        """Returns the model's outputs for a dataset, nested as they are.

        Args:
            dataset: Batches of features.
            shown: Counts them.

        Raises:
            ConfigError: There are none.
        """
        self._expect("predict", dataset)
        opened = self._open(dataset, training=False)
        found = []
        for batch, pulled in pulled_ahead(self._client, opened.batches()):
            self._computing.assign(pulled.dense)
            outputs = self.steps.predict(batch.data, pulled.rows, batch.inverse)
            found.append(tf.nest.map_structure(lambda x: x.numpy(), outputs))
            shown.update(len(found), finalize=False)
        if not found:
            raise _no_batch(dataset)
        shown.update(len(found), finalize=True)
        return tf.nest.map_structure(lambda *x: np.concatenate(x), *found)

    def refresh(self) -> None:
        """Brings the model the newest dense parameters."""
        refresh(self.prepared, self._client, self._computing)

    def welcome(self, dataset: tf.data.Dataset) -> None:
        """Makes metrics by the first dataset with labels.

        Args:
            dataset: Batches (features, labels[, weights]).

        Raises:
            ConfigError: There are none.
        """
        if not self._has_metrics:
            self._make_steps(_first(dataset))

    def _expect(self, mode: str, dataset: tf.data.Dataset) -> None:
        """Lets a mode's steps be those for a dataset's batches."""
        if not self.steps.fits(mode, dataset.element_spec):
            self.steps.forget(mode)
        self.steps.expect(mode, dataset.element_spec)

    def _stop_training(self) -> None:
        if self._pipeline is not None:
            self._pipeline.stop_training()

    def _open(self, dataset: tf.data.Dataset, *, training: bool) -> TaskBatches:
        lookup = Lookup(self.prepared, dataset.element_spec, training=training)
        batches = lookup.map(dataset).prefetch(_PREFETCH)
        return TaskBatches(batches, Counts(), self._client.num_shards)

    def _make_steps(self, batch: Any) -> None:
        """Makes the steps, without metrics where the batch has no labels."""
        self._has_metrics = unpack(batch).labels is not None
        metrics = (
            self._metrics(self._compiled, batch)
            if self._has_metrics
            else MetricSet(None)
        )
        # Training and evaluation take turns with them.
        self.steps = Steps(self.prepared, (metrics, metrics))
        self.steps.try_metrics(batch)
        self._running = RunningLogs(metrics), RunningLogs(metrics)
        self._computing = TrainComputing(
            self.steps, self._stats, running=self._running[0]
        )

    def _metrics(self, compiled: Compiled, batch: Any) -> MetricSet:
        parts = unpack(batch)
        model = self.prepared.model
        with lookup_scope(ZeroRows()):
            traced = tf.function(
                lambda features: model(features, training=False),
                autograph=False,
            ).get_concrete_function(spec_of(as_tensors(parts.features)))
        outputs = traced.structured_outputs
        labels = tf.nest.map_structure(
            tf.type_spec_from_value, as_tensors(parts.labels)
        )
        names = list(getattr(model, "output_names", None) or [])
        named = compiled.named_metrics(labels, outputs, names)
        return MetricSet(named or None, names)


def _first(dataset: tf.data.Dataset) -> Any:
    for batch in dataset.take(1):
        return batch
    raise _no_batch(dataset)


def _no_batch(dataset: tf.data.Dataset) -> ConfigError:
    return ConfigError(
        "There must be at least one example. "
        f"Received: no batch of {dataset.element_spec}"
    )
