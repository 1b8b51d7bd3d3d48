"""The user's metrics and the loss, accumulated in the compiled step."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.worker.losses import pick


class MetricSet:
    """The metrics of `eval_metrics_fn` and the mean loss.

    As with `metrics` of `Model.compile`, sample weights do not enter
    metrics; the loss has them. States of several workers may be added up
    element by element, which is exact for every metric whose state is a sum.

    Args:
        metrics: Name to Keras metric or to a function (labels, predictions)
            that gives a scalar or one value per example; or one level
            deeper, per output. `None` for the loss alone.
        output_names: Names of the model's outputs.

    Raises:
        ConfigError: Something in it is not a metric.
    """

    def __init__(
        self,
        metrics: dict[str, Any] | None,
        output_names: list[str] | None = None,
    ) -> None:
        self._output_names = output_names or []
        self._loss = keras.metrics.Mean(name="loss")
        # Full name -> (output or None, metric)
        self._metrics: dict[str, tuple[str | None, Any]] = {}
        if metrics is not None and not isinstance(metrics, dict):
            raise ConfigError(
                "eval_metrics_fn returns a dict of metrics by name. "
                f"Received: {type(metrics).__name__}"
            )
        for name, metric in (metrics or {}).items():
            if isinstance(metric, dict):
                for inner, one in metric.items():
                    self._add(f"{name}_{inner}", name, one)
            else:
                self._add(name, None, metric)

    def _add(self, name: str, output: str | None, metric: Any) -> None:
        if name == "loss" or name in self._metrics:
            raise ConfigError(
                "Each metric has a name of its own, other than loss. "
                f"Received: metric {name!r}"
            )
        if isinstance(metric, str):
            metric = keras.metrics.get(metric)
        if not isinstance(metric, keras.metrics.Metric):
            if not callable(metric):
                raise ConfigError(
                    "A metric is a Keras metric or a function (labels, "
                    "predictions). "
                    f"Received: {name} of type {type(metric).__name__}"
                )
            metric = _FunctionMetric(metric, name)
        self._metrics[name] = (output, metric)

    @property
    def must_be_tried(self) -> bool:
        """Whether a metric has to see a batch before it can be relied on."""
        metrics = [metric for _, metric in self._metrics.values()]
        return any(_is_own(each) or not each.variables for each in metrics)

    def try_out(self, labels: Any, predictions: Any) -> None:
        """Lets the metrics see a batch, which builds them, and forget it.

        Args:
            labels: A batch's labels.
            predictions: The model's output for it.

        Raises:
            ConfigError: The state of a metric is not a sum over batches.
        """
        states = []
        for _ in range(2):
            self._update(labels, predictions, tf.ones([], tf.int64))
            states.append(self.state())
        self.reset()
        start = self.state()
        for name, (_, metric) in self._metrics.items():
            if _is_own(metric) and not _is_sum(
                start[name], states[0][name], states[1][name]
            ):
                raise ConfigError(
                    "The state of a metric must start at 0 and be a sum over "
                    "batches, since those of tasks and workers are added up; "
                    f"that of {name!r} is not. Received: {name} of type "
                    f"{type(metric).__name__}"
                )

    def build(self, labels: Any, predictions: Any) -> None:
        """Makes the metrics' variables, before a step is traced.

        Args:
            labels: Nested specs of labels.
            predictions: Nested specs of predictions.
        """

        def update(labels: Any, predictions: Any) -> None:
            self._update(labels, predictions, tf.zeros([], tf.int64))

        tf.function(update, autograph=False).get_concrete_function(
            labels, predictions
        )

    def update(
        self,
        labels: Any,
        predictions: Any,
        loss: tf.Tensor,
        batch_size: tf.Tensor,
    ) -> None:
        """Takes in a batch; for use in a graph.

        Args:
            labels: The batch's labels, nested as they are.
            predictions: The model's output.
            loss: The batch's loss, a scalar.
            batch_size: Number of examples.
        """
        self._loss.update_state(loss, sample_weight=batch_size)
        self._update(labels, predictions, batch_size)

    def _update(
        self, labels: Any, predictions: Any, batch_size: tf.Tensor
    ) -> None:
        for output, metric in self._metrics.values():
            ours, theirs = predictions, labels
            if output is not None:
                ours = pick(predictions, output, self._output_names)
                if isinstance(labels, dict | list | tuple):
                    theirs = pick(labels, output, self._output_names)
            if isinstance(metric, _FunctionMetric):
                metric.update(theirs, ours, batch_size)
            else:
                metric.update_state(theirs, ours)

    def _all(self) -> dict[str, Any]:
        metrics = {name: metric for name, (_, metric) in self._metrics.items()}
        return {"loss": self._loss, **metrics}

    def modes(self) -> dict[str, str]:
        """Returns which way metrics get better, "min" or "max", by name.

        A metric that does not say so is left out.
        """
        found = {"loss": "min"}
        for name, (_, metric) in self._metrics.items():
            direction = getattr(metric, "_direction", None)
            if direction:
                found[name] = "max" if direction == "up" else "min"
        return found

    def require(self, name: str) -> None:
        """Checks the metric of early stopping, before anything is trained.

        Args:
            name: Its name; empty for no early stopping.

        Raises:
            ConfigError: There is no such metric.
        """
        known = sorted(self._all())
        # A value that is a dict or a vector is known by further words.
        if name in ("", *known) or any(
            name.startswith(f"{metric}_") for metric in known
        ):
            return
        raise ConfigError(
            f"--early_stopping_metric takes one of {', '.join(known)}. "
            f"Received: early_stopping_metric={name!r}"
        )

    def reset(self) -> None:
        """Forgets what was taken in."""
        for metric in self._all().values():
            metric.reset_state()

    def state(self) -> dict[str, list[np.ndarray]]:
        """Returns the variables of each metric by its name."""
        return {
            name: [np.asarray(variable) for variable in metric.variables]
            for name, metric in self._all().items()
        }

    def result(self) -> dict[str, float]:
        """Returns the value of each metric by its name."""
        values: dict[str, float] = {}
        for name, metric in self._all().items():
            values.update(_numbers(name, metric.result()))
        return values

    def result_from(
        self, states: dict[str, list[np.ndarray]]
    ) -> dict[str, float]:
        """Returns the values for given states; the own state stays.

        Args:
            states: As `state` returns them, of one worker or added up.

        Raises:
            ConfigError: They are not states of these metrics.
        """
        if not states:
            states = {
                name: [np.zeros_like(array) for array in arrays]
                for name, arrays in self.state().items()
            }
        kept = self.state()
        self._assign(states)
        try:
            return self.result()
        finally:
            self._assign(kept)

    def _assign(self, states: dict[str, list[np.ndarray]]) -> None:
        metrics = self._all()
        if set(states) != set(metrics):
            raise ConfigError(
                f"The metrics are {sorted(metrics)}. "
                f"Received: states of {sorted(states)}"
            )
        for name, metric in metrics.items():
            for variable, array in zip(
                metric.variables, states[name], strict=True
            ):
                variable.assign(array)


def metric_sets(
    make: Callable[[], Any] | None, output_names: list[str]
) -> tuple[MetricSet, MetricSet]:
    """Returns separate metrics for training and evaluation.

    Args:
        make: The module's `eval_metrics_fn`, or `None`.
        output_names: Names of the model's outputs.

    Raises:
        ConfigError: Both would share a state.
    """
    if make is None:
        return MetricSet(None), MetricSet(None)
    first, second = make(), make()
    return (
        MetricSet(first, output_names),
        MetricSet(_others(second, first), output_names),
    )


def _others(metrics: Any, first: Any) -> Any:
    """Copies what a module returned before: each set has its own states."""
    if isinstance(metrics, dict):
        return {
            name: _others(metric, first.get(name))
            for name, metric in metrics.items()
        }
    if metrics is not first or not isinstance(metrics, keras.metrics.Metric):
        return metrics
    if _is_own(metrics):
        # Its get_config need not tell how it was made.
        raise ConfigError(
            "eval_metrics_fn must make new metrics at each call: those of "
            "training and of evaluation have states of their own. "
            f"Received: the same {type(metrics).__name__} twice"
        )
    return type(metrics).from_config(metrics.get_config())


def _is_own(metric: Any) -> bool:
    """Whether a metric is a class of the user's."""
    package = type(metric).__module__.split(".")[0]
    return package not in ("keras", "elastic_keras")


def _is_sum(
    start: list[np.ndarray], once: list[np.ndarray], twice: list[np.ndarray]
) -> bool:
    """Whether a state that saw a batch twice is twice that of one time."""
    return all(
        not np.any(zero)
        and np.allclose(two, 2 * one, rtol=1e-4, equal_nan=True)
        for zero, one, two in zip(start, once, twice, strict=True)
    )


class _FunctionMetric(keras.metrics.Mean):
    """The mean over examples of what a function gives."""

    def __init__(self, function: Any, name: str) -> None:
        super().__init__(name=name)
        self._function = function

    def update(
        self, labels: Any, predictions: Any, batch_size: tf.Tensor
    ) -> None:
        value = tf.cast(self._function(labels, predictions), tf.float32)
        if value.shape.rank == 0:
            self.update_state(value, sample_weight=batch_size)
        else:
            self.update_state(value)


def _numbers(name: str, value: Any) -> dict[str, float]:
    """Spreads a result that is a dict or a vector over several names."""
    if isinstance(value, dict):
        numbers: dict[str, float] = {}
        for key, part in value.items():
            numbers.update(_numbers(f"{name}_{key}", part))
        return numbers
    array = np.asarray(value, np.float64)
    if array.ndim == 0:
        return {name: float(array)}
    return {
        f"{name}_{index}": float(part)
        for index, part in enumerate(array.reshape(-1))
    }
