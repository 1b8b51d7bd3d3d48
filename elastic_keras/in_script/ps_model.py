"""A Keras model that trains through parameter-server shards."""

import json
import weakref
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from elastic_keras.config import ConfigError, StalenessOptions
from elastic_keras.in_script.compiled import Compiled
from elastic_keras.in_script.inputs import as_dataset, labelled, split
from elastic_keras.in_script.rows import bring_back
from elastic_keras.in_script.session import Session
from elastic_keras.wire.proto import master_pb2

_Callbacks = Sequence[keras.callbacks.Callback] | None


class PSModel:
    """Trains a Keras model whose embeddings live on shards of this host.

    For a script that has a model and a dataset. The shards are processes that
    start with the first `fit` and end with `to_keras`, `close` or the script.
    Keras Embedding layers of 2 MiB or more, and every `layers.Embedding`, are
    tables there until `to_keras` brings their rows back.

    Args:
        model: The model; it is changed in place.
        num_ps: Number of shards.
        max_staleness: The bound S of the policy `wait`. With 0 each step sees
            all before it, as in Keras; with a few, pulls and pushes go on
            beside the steps, which is faster.
        seed: Seed of the rows' initial values.
        embedding_threshold_bytes: Least size of a Keras Embedding that
            becomes a table, in bytes.

    Example:
        >>> import keras, numpy as np, elastic_keras as ek
        >>> ids = keras.Input((), dtype="int64")
        >>> rows = ek.layers.Embedding(4)(ids)
        >>> model = keras.Model(ids, keras.layers.Dense(1)(rows))
        >>> trained = ek.PSModel(model)
        >>> trained.compile("adagrad", "mse")
        >>> x, y = np.arange(64) % 8, np.ones((64, 1))
        >>> history = trained.fit(x, y, epochs=2, verbose=0)
        >>> losses = history.history["loss"]
        >>> losses[1] < losses[0]
        True
        >>> isinstance(trained.to_keras(), keras.Model)
        True
    """

    def __init__(
        self,
        model: keras.Model,
        *,
        num_ps: int = 1,
        max_staleness: int = 0,
        seed: int = 0,
        embedding_threshold_bytes: int = 2 << 20,
    ) -> None:
        if not isinstance(model, keras.Model):
            raise ConfigError(
                "PSModel takes a keras.Model. "
                f"Received: model of type {type(model).__name__}"
            )
        if num_ps < 1:
            raise ConfigError(
                f"There is at least one shard. Received: num_ps={num_ps}"
            )
        self.model = model
        self._num_ps = num_ps
        self._staleness = StalenessOptions(max_staleness=max_staleness)
        self._seed = seed
        self._threshold = embedding_threshold_bytes
        self._compiled: Compiled | None = None
        self._session: Session | None = None
        self._ends: Any = None
        self.history: keras.callbacks.History | None = None

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
    ) -> None:
        """Says how the model is trained, as `keras.Model.compile` does.

        Args:
            optimizer: A Keras optimizer or its name.
            loss: A Keras loss, its name, a function (labels, predictions),
                or one for each output.
            metrics: Metrics, names or functions in a list, or by output.
            weighted_metrics: Not supported: weights enter the loss alone.

        Raises:
            ConfigError: It has been trained already.
        """
        if weighted_metrics:
            raise ConfigError(
                "Weights enter the loss alone: name metrics in metrics=. "
                f"Received: weighted_metrics={weighted_metrics!r}"
            )
        if self._session is not None:
            raise ConfigError(
                "The model is being trained: call to_keras() before it is "
                f"compiled anew. Received: optimizer={optimizer!r}"
            )
        optimizer = keras.optimizers.get(optimizer)
        self._compiled = Compiled(optimizer, loss, metrics)

    def fit(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: _Callbacks = None,
        validation_data: Any = None,
        shuffle: bool = True,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        validation_split: float = 0.0,
        class_weight: Any = None,
        steps_per_epoch: int | None = None,
    ) -> keras.callbacks.History:
        """Trains the model.

        Args:
            x: A `tf.data.Dataset` of batches (features, labels[, weights]),
                or nested arrays of shape `(examples, ...)`.
            y: Labels, for arrays.
            batch_size: Examples in a batch of arrays; 32 by default.
            epochs: The epoch after the last, counted from 0.
            verbose: 0 shows nothing, 1 a progress bar, 2 a line each epoch.
            callbacks: Keras callbacks.
            validation_data: A dataset, or (x, y[, weights]), evaluated after
                each epoch.
            shuffle: Whether arrays are shuffled in each epoch.
            sample_weight: Weights, for arrays.
            initial_epoch: The first epoch.
            validation_split: Fraction of arrays, their end, held out as
                validation data.
            class_weight: Not supported: give `sample_weight`.
            steps_per_epoch: Not supported: give `dataset.take(n)`.

        Returns:
            Keras's history, whose `history` has a list of values by metric.

        Raises:
            ConfigError: The model, or an argument, cannot work.
            FloatingPointError: A gradient held a NaN or Inf.
        """
        _refuse(class_weight=class_weight, steps_per_epoch=steps_per_epoch)
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = split(
                (x, y, sample_weight), validation_split
            )
        dataset = labelled(
            as_dataset(
                x, y, sample_weight, batch_size=batch_size, shuffle=shuffle
            )
        )
        held_out = _validation(validation_data, batch_size)
        session = self._open(dataset)
        session.welcome(dataset)
        history = keras.callbacks.History()
        hooks = session.use_callbacks(
            # In Keras's order: callbacks may add to the logs.
            [*(callbacks or ()), *_progress(verbose), history],
            epochs=epochs,
            verbose=_level(verbose),
            steps=_steps(dataset),
        )
        history.set_model(self.model)
        self.history = history
        hooks.run(_hook("on_train_begin"))
        logs: dict[str, float] = {}
        for epoch in range(initial_epoch, epochs):
            hooks.run(_hook("on_epoch_begin", epoch))
            logs = session.train(dataset, epoch)
            if held_out is not None:
                hooks.run(_hook("on_test_begin", epoch))
                found = session.evaluate(held_out, hooks)
                hooks.run(_hook("on_test_end", epoch, found))
                logs |= {f"val_{name}": value for name, value in found.items()}
            if hooks.run(_hook("on_epoch_end", epoch, logs))["stop"]:
                break
        if epochs > initial_epoch:
            # With `use_ema`, as Keras does at the end of each fit.
            session.shards.finalize()
        hooks.run(_hook("on_train_end", 0, logs))
        session.refresh()
        return history

    def evaluate(
        self,
        x: Any,
        y: Any = None,
        *,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        callbacks: _Callbacks = None,
        return_dict: bool = False,
    ) -> Any:
        """Evaluates the model; arguments as in `fit`.

        Returns:
            The loss, or a list of it and the metrics, as in Keras; with
            `return_dict` the value by metric.
        """
        dataset = labelled(
            as_dataset(x, y, sample_weight, batch_size=batch_size)
        )
        shown = _progress(verbose)
        session = self._open(dataset)
        session.welcome(dataset)
        hooks = session.use_callbacks(
            [*(callbacks or ()), *shown],
            epochs=1,
            verbose=_level(verbose),
            steps=_steps(dataset),
        )
        hooks.run(_hook("on_test_begin"))
        values = session.evaluate(dataset, hooks)
        hooks.run(_hook("on_test_end", 0, values))
        if return_dict:
            return values
        listed = list(values.values())
        return listed[0] if len(listed) == 1 else listed

    def predict(
        self,
        x: Any,
        *,
        batch_size: int | None = None,
        verbose: Any = "auto",
    ) -> Any:
        """Returns the model's outputs as arrays, nested as they are.

        Args:
            x: A dataset of batches, whose labels are left out, or arrays.
            batch_size: Examples in a batch of arrays; 32 by default.
            verbose: Whether a progress bar is shown, as in `fit`.
        """
        level = _level(verbose)
        dataset = as_dataset(x, batch_size=batch_size)
        spec = dataset.element_spec
        if isinstance(spec, tuple):
            dataset = dataset.map(lambda features, *rest: (features,))
        shown = keras.utils.Progbar(_steps(dataset), verbose=level)
        return self._open(dataset).predict(dataset, shown)

    def to_keras(self) -> keras.Model:
        """Ends training and returns the model, an ordinary one again.

        Its layers have their rows and weights: it can be called, saved and
        compiled as any other. The optimizer's slots are gone.

        Raises:
            MemoryError: The rows do not fit into this process.
        """
        if self._session is not None:
            shards = self._session.shards
            shards.finalize()
            self._session.refresh()
            bring_back(self._session.prepared, *shards.snapshot())
            self.close()
            self._compile_model()
        return self.model

    def _compile_model(self) -> None:
        """Compiles the ordinary model, with an optimizer that begins anew."""
        assert self._compiled is not None
        optimizer = self._compiled.optimizer
        self.model.compile(
            optimizer=type(optimizer).from_config(optimizer.get_config()),
            loss=self._compiled.loss,
            metrics=self._compiled.metrics,
        )
        # So that it is saved whole.
        self.model.optimizer.build(self.model.trainable_variables)

    def close(self) -> None:
        """Ends the shards; rows that `to_keras` has not fetched are gone."""
        if self._ends is not None:
            self._ends()
        self._session = None

    def __enter__(self) -> "PSModel":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self, dataset: tf.data.Dataset) -> Session:
        """Returns the session; the first dataset builds the model."""
        if self._session is not None:
            return self._session
        if self._compiled is None:
            raise ConfigError(
                "Call compile(optimizer, loss) before fit or predict. "
                f"Received: a model named {self.model.name!r}"
            )
        self._session = Session(
            self.model,
            self._compiled,
            dataset,
            num_ps=self._num_ps,
            staleness=self._staleness,
            seed=self._seed,
            threshold_bytes=self._threshold,
        )
        self._ends = weakref.finalize(self, self._session.close)
        return self._session


def _validation(data: Any, batch_size: int | None) -> tf.data.Dataset | None:
    if data is None or isinstance(data, tf.data.Dataset):
        return None if data is None else labelled(as_dataset(data))
    if not isinstance(data, tuple | list) or len(data) not in (2, 3):
        raise ConfigError(
            "validation_data is a dataset, (x, y) or (x, y, sample_weight). "
            f"Received: {type(data).__name__}"
        )
    return labelled(as_dataset(*data, batch_size=batch_size))


def _refuse(**arguments: Any) -> None:
    instead = {
        "class_weight": "each example's weight as sample_weight",
        "steps_per_epoch": "a dataset of as many batches: dataset.take(n)",
    }
    for name, value in arguments.items():
        if value is not None:
            raise ConfigError(
                f"fit() has no {name}; give {instead[name]}. "
                f"Received: {name}={value!r}"
            )


def _level(verbose: Any) -> int:
    if verbose not in ("auto", 0, 1, 2):
        raise ConfigError(
            f'verbose is "auto", 0, 1 or 2. Received: verbose={verbose!r}'
        )
    return 1 if verbose == "auto" else int(verbose)


def _progress(verbose: Any) -> list[keras.callbacks.Callback]:
    return [keras.callbacks.ProgbarLogger()] if _level(verbose) else []


def _steps(dataset: tf.data.Dataset) -> int | None:
    """Returns the number of batches, if it is known."""
    steps = int(dataset.cardinality())
    return steps if steps >= 0 else None


def _hook(
    name: str, epoch: int = 0, logs: dict[str, float] | None = None
) -> master_pb2.Task:
    return master_pb2.Task(
        kind=master_pb2.TASK_CALLBACK,
        hook=name,
        epoch=epoch,
        logs=json.dumps(logs or {}),
    )
