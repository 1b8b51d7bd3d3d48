"""What `compile` is given, as a job has it."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras

from elastic_keras.config import ConfigError

_ACCURACY = ("accuracy", "acc")


@dataclasses.dataclass(frozen=True)
class Compiled:
    """How a model is trained.

    Args:
        optimizer: A Keras optimizer.
        loss: A loss, as for `worker.losses.make_loss`.
        metrics: Metrics as for `keras.Model.compile`: a list, or by output.
    """

    optimizer: keras.optimizers.Optimizer
    loss: Any
    metrics: Any = None

    def named_metrics(
        self, labels: Any, outputs: Any, names: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Returns metrics by name, or by output and name.

        Args:
            labels: Spec of the labels, for "accuracy".
            outputs: Spec of the model's outputs.
            names: Names of the outputs, for lists of one entry for each.

        Raises:
            ConfigError: Metrics in another form.
        """
        metrics = self.metrics
        if metrics is None:
            return {}
        if _is_by_position(metrics):
            if len(metrics) != len(names):
                raise ConfigError(
                    "A list of lists of metrics has one for each output. "
                    f"Received: {len(metrics)} of them, outputs {list(names)}"
                )
            metrics = dict(zip(names, metrics, strict=True))
        if isinstance(metrics, dict):
            return {
                output: _named(
                    _listed(entry),
                    _part(labels, output, names),
                    _part(outputs, output, names),
                )
                for output, entry in metrics.items()
            }
        return _named(_listed(metrics), labels, outputs)


def _listed(metrics: Any) -> Sequence[Any]:
    return metrics if isinstance(metrics, list | tuple) else [metrics]


def _is_by_position(metrics: Any) -> bool:
    return isinstance(metrics, list | tuple) and any(
        isinstance(entry, list | tuple) for entry in metrics
    )


def _part(specs: Any, output: str, names: Sequence[str]) -> Any:
    if isinstance(specs, dict):
        return specs.get(output)
    if isinstance(specs, list | tuple) and output in names:
        return specs[names.index(output)]
    return specs


def _named(metrics: Sequence[Any], labels: Any, outputs: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for metric in metrics:
        name = metric if isinstance(metric, str) else _name(metric)
        if name in found:
            raise ConfigError(
                f"Each metric has a name of its own. Received: {name!r} twice"
            )
        is_accuracy = metric in _ACCURACY if isinstance(metric, str) else False
        found[name] = (
            _accuracy(name, labels, outputs) if is_accuracy else metric
        )
    return found


def _name(metric: Any) -> str:
    name = getattr(metric, "name", None) or getattr(metric, "__name__", None)
    if not isinstance(name, str):
        raise ConfigError(
            "A metric is a name, a Keras metric or a function (labels, "
            f"predictions). Received: {metric!r}"
        )
    return name


def _accuracy(name: str, labels: Any, outputs: Any) -> keras.metrics.Metric:
    """Returns the accuracy that fits the shapes, as Keras chooses it."""
    if not hasattr(outputs, "shape") or not hasattr(labels, "shape"):
        raise ConfigError(
            "Which accuracy is meant for several outputs? Name a metric for "
            f"each. Received: {name!r}"
        )
    if outputs.shape[-1] == 1:
        return keras.metrics.BinaryAccuracy(name=name)
    ranks = labels.shape.rank, outputs.shape.rank
    if ranks[0] < ranks[1] or labels.shape[-1] == 1:
        return keras.metrics.SparseCategoricalAccuracy(name=name)
    return keras.metrics.CategoricalAccuracy(name=name)
