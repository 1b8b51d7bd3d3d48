"""Keras callbacks in a job: every standard hook, with the right logs."""

import functools
import json
from collections.abc import Callable
from typing import Any

import keras

from elastic_keras.config import ConfigError
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.running_logs import RunningLogs
from elastic_keras.worker.tensorboard import needs_each_batch

_TRAIN_HOOKS = (
    "on_train_batch_begin",
    "on_train_batch_end",
    "on_batch_begin",
    "on_batch_end",
)
_TEST_HOOKS = ("on_test_batch_begin", "on_test_batch_end")


class JobCallbacks:
    """A module's callbacks around the model that this worker trains.

    Epoch, train and test hooks come from the master as tasks, with logs
    merged over all workers; batch hooks run around this worker's own
    batches, numbered, and with logs, from the epoch's or evaluation's begin.
    As in Keras, `model.stop_training` acts after a batch.

    Args:
        callbacks: The module's callbacks.
        model: The model that they see.
        epochs: Epochs of the job.
        optimizers: Keras optimizers by their position in the signature.
        set_learning_rate: Sets an optimizer's rate on the shards.
        refresh: Brings the model the newest dense parameters.
        stop_training: Ends training for all workers; called after each
            batch for which the model says so.
        running: The logs of training batches and of test batches, which
            begin anew with the epoch and the evaluation.
        verbose: What callbacks find in `params`, as in Keras.
        steps: Batches of an epoch, likewise.
        train_function: Returns the step as the `tf.function` that callbacks
            look for at the model.
    """

    def __init__(
        self,
        callbacks: list[keras.callbacks.Callback],
        model: keras.Model,
        *,
        epochs: int,
        optimizers: list[keras.optimizers.Optimizer],
        set_learning_rate: Callable[[int, float], None],
        refresh: Callable[[], None],
        stop_training: Callable[[], None],
        running: tuple[RunningLogs, RunningLogs],
        verbose: int = 0,
        steps: int | None = None,
        train_function: Callable[[], Any] = lambda: None,
    ) -> None:
        self._model = model
        self._optimizers = optimizers
        self._set_learning_rate = set_learning_rate
        self._refresh = refresh
        self._stop_training = stop_training
        self._train_logs, self._test_logs = running
        self._train_function = train_function
        self._rates = self._learning_rates()
        self.wants_train_batches = _override(callbacks, _TRAIN_HOOKS)
        lasting = [each for each in callbacks if needs_each_batch(each)]
        self._wants_later_batches = _override(lasting, _TRAIN_HOOKS)
        self.wants_test_batches = _override(lasting, _TEST_HOOKS)
        self._batch = 0
        self._test_batch = 0
        # Hooks that have begun and not ended in this process.
        self._open: set[str] = set()
        # Callbacks look at `model.optimizer`.
        model.compile(optimizer=optimizers[0], auto_scale_loss=False)
        model.stop_training = False
        self._callbacks = callbacks
        self._params = {"epochs": epochs, "verbose": verbose, "steps": steps}

    @functools.cached_property
    def _list(self) -> keras.callbacks.CallbackList:
        """The callbacks, which learn of the model only where they run."""
        return keras.callbacks.CallbackList(
            self._callbacks,
            add_history=False,
            add_progbar=False,
            model=self._model,
            **self._params,
        )

    def train_batch_begin(self) -> None:
        """Calls `on_train_batch_begin`."""
        self._begin("train")
        self._list.on_train_batch_begin(self._batch, {})
        self._tell_learning_rates()

    def train_batch_end(self, logs: dict[str, float]) -> None:
        """Calls `on_train_batch_end`."""
        if self._model.train_function is None:
            self._model.train_function = self._train_function()
        self._list.on_train_batch_end(self._batch, logs)
        self._batch += 1
        # A new learning rate is the next batch's: this one's gradients are
        # still to be pushed.
        if self._model.stop_training:
            self._stop_training()
        else:
            self.wants_train_batches = self._wants_later_batches

    def test_batch_begin(self) -> None:
        """Calls `on_test_batch_begin`."""
        self._begin("test")
        self._list.on_test_batch_begin(self._test_batch, {})

    def test_batch_end(self, logs: dict[str, float]) -> None:
        """Calls `on_test_batch_end`."""
        self._list.on_test_batch_end(self._test_batch, logs)
        self._test_batch += 1

    def run(self, task: master_pb2.Task) -> dict[str, Any]:
        """Calls the hook of a `TASK_CALLBACK`.

        Args:
            task: With the hook's name, the epoch and the merged logs.

        Returns:
            The result for the master.
        """
        logs = json.loads(task.logs) if task.logs else {}
        if task.hook in ("on_epoch_end", "on_train_end", "on_test_end"):
            self._refresh()
        _, block, edge = task.hook.split("_")
        if edge == "end" or block == "epoch":
            self._begin("test" if block == "test" else "train")
        if block == "epoch":
            self._batch = 0
            self._train_logs.restart()
            if edge == "begin":
                self._open.add("epoch")
            elif "epoch" not in self._open:
                # As in `_begin`; a callback may need at the end what it
                # notes at the begin.
                self._list.on_epoch_begin(task.epoch, {})
            getattr(self._list, task.hook)(task.epoch, logs)
            if edge == "end":
                self._open.discard("epoch")
        elif edge == "begin":
            self._begin(block)
        else:
            self._open.discard(block)
            getattr(self._list, task.hook)(logs)
        self._tell_learning_rates()
        stop = bool(self._model.stop_training)
        if stop and edge == "begin":
            # As in Keras, it acts after the next batch.
            self.wants_train_batches = True
        return {"stop": stop}

    def _begin(self, block: str) -> None:
        """Calls a block's begin hook, unless it has begun already.

        A worker that becomes the chief in the middle has not seen it.
        """
        if block not in self._open:
            self._open.add(block)
            if block == "test":
                self._test_batch = 0
                self._test_logs.restart()
            getattr(self._list, f"on_{block}_begin")()

    def _tell_learning_rates(self) -> None:
        rates = self._learning_rates()
        for optimizer, rate in rates.items():
            if rate != self._rates[optimizer]:
                self._set_learning_rate(optimizer, rate)
        self._rates = rates

    def _learning_rates(self) -> dict[int, float]:
        """Returns the rates that a callback may set; a schedule is none."""
        return {
            position: float(optimizer.learning_rate)
            for position, optimizer in enumerate(self._optimizers)
            if not _has_schedule(optimizer)
        }


_SAVE_THE_MODEL = (
    keras.callbacks.BackupAndRestore,
    keras.callbacks.ModelCheckpoint,
)


def check_tables(
    callbacks: list[keras.callbacks.Callback], tables: list[str]
) -> None:
    """Refuses callbacks that would save a model without its rows.

    Args:
        callbacks: The module's callbacks.
        tables: Names of the model's PS tables.

    Raises:
        ConfigError: There are such callbacks, and tables.
    """
    for callback in callbacks:
        if tables and isinstance(callback, _SAVE_THE_MODEL):
            raise ConfigError(
                f"{type(callback).__name__} would save the model without the "
                "rows that lie on PS shards; leave it out of callbacks(). "
                f"Received: a model with the tables {', '.join(tables)}"
            )


_MONITORS = (
    keras.callbacks.EarlyStopping,
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.ReduceLROnPlateau,
)


def set_modes(
    callbacks: list[keras.callbacks.Callback], modes: dict[str, str]
) -> None:
    """Tells callbacks of mode "auto" which way their metric gets better.

    Keras reads that off the metrics of a compiled model; those of a job are
    not the model's.

    Args:
        callbacks: The module's callbacks.
        modes: "min" or "max" by metric, without `val_`.
    """
    for callback in callbacks:
        if isinstance(callback, _MONITORS) and callback.mode == "auto":
            name = callback.monitor.removeprefix("val_")
            callback.mode = modes.get(name, callback.mode)


def check(callbacks: Any) -> list[keras.callbacks.Callback]:
    """Checks what a module's `callbacks()` returned.

    Args:
        callbacks: A list of Keras callbacks.

    Raises:
        ConfigError: It holds something else, or what a job cannot honour.
    """
    if callbacks is None:
        return []
    if not isinstance(callbacks, list | tuple):
        callbacks = [callbacks]
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise ConfigError(
                "callbacks() must return a list of Keras callbacks. "
                f"Received: {callback!r}"
            )
        if (
            isinstance(callback, keras.callbacks.EarlyStopping)
            and callback.restore_best_weights
        ):
            raise ConfigError(
                "EarlyStopping(restore_best_weights=True) cannot bring back "
                "the rows that lie on PS shards. Leave restore_best_weights "
                "out, or stop with --early_stopping_metric and "
                "--early_stopping_patience. Received: callbacks() with "
                "restore_best_weights=True"
            )
    return list(callbacks)


def _override(
    callbacks: list[keras.callbacks.Callback], hooks: tuple[str, ...]
) -> bool:
    """Whether any callback overrides one of the hooks."""
    return any(
        _function(getattr(callback, hook))
        is not getattr(keras.callbacks.Callback, hook)
        for callback in callbacks
        for hook in hooks
    )


def _function(method: Any) -> Any:
    """Returns a bound method's function; a LambdaCallback has only those."""
    return getattr(method, "__func__", method)


def _has_schedule(optimizer: keras.optimizers.Optimizer) -> bool:
    return isinstance(
        optimizer._learning_rate,
        keras.optimizers.schedules.LearningRateSchedule,
    )
