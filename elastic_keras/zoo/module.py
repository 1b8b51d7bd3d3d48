"""The contract between a model-zoo module and the system."""

from __future__ import annotations

import difflib
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from elastic_keras.config import ConfigError, ModelOptions
from elastic_keras.zoo.errors import UserCodeError
from elastic_keras.zoo.location import Location, locate
from elastic_keras.zoo.params import parse_params

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from elastic_keras.data.reader import DataReader, Metadata


def load(model: ModelOptions, *, training: bool = True) -> ZooModule:
    """Imports a model-zoo module and checks it.

    Args:
        model: Where it is, and the arguments of its model.
        training: Whether it needs an `optimizer`.

    Raises:
        ConfigError: There is no such module, or it breaks the contract.
        UserCodeError: Its own code raised while it was imported.
    """
    location = locate(model)
    params = parse_params(model.model_params)
    try:
        module = location.load()
    except (Exception, SystemExit) as error:
        raise UserCodeError(location.path, error) from error
    return ZooModule(module, location, params, training=training)


class ZooModule:
    """A model-zoo module that keeps the contract.

    Exceptions of the functions called through it become `UserCodeError`.

    Args:
        module: The imported module.
        location: Where it was found.
        params: Arguments of its model.
        training: Whether it needs an `optimizer`.

    Raises:
        ConfigError: A name is missing or not what it must be.
    """

    def __init__(
        self,
        module: types.ModuleType,
        location: Location,
        params: dict[str, Any] | None = None,
        *,
        training: bool = True,
    ) -> None:
        self._module = module
        self._path = location.path
        self._params = params or {}
        self._model = self._function(location.model)
        self._check_params()
        self.loss: Callable[..., Any] = self._loss()
        self._dataset_fn = self._function("dataset_fn", "feed", arguments=3)
        self._optimizer = self._optional("optimizer")
        if training:
            self._function("optimizer", arguments=0)
        self._eval_metrics_fn = self._optional("eval_metrics_fn")
        self._callbacks = self._optional("callbacks")
        self.custom_data_reader: Callable[..., DataReader] | None = (
            self._optional("custom_data_reader", arguments=2)
        )

    @property
    def has_callbacks(self) -> bool:
        """Whether the module defines `callbacks`."""
        return self._callbacks is not None

    def custom_model(self) -> keras.Model:
        """Makes the model, with the params that were given."""
        import keras

        model = self._call("custom_model", self._model, **self._params)
        if not isinstance(model, keras.Model):
            raise self._wrong(
                "custom_model must return a keras.Model", _shown(model)
            )
        return model

    def optimizer(self) -> keras.optimizers.Optimizer:
        """Makes the optimizer."""
        import keras

        optimizer = self._call("optimizer", self._optimizer)
        if not isinstance(optimizer, keras.optimizers.Optimizer):
            raise self._wrong(
                "optimizer() must return a keras.optimizers.Optimizer",
                _shown(optimizer),
            )
        return optimizer

    def dataset_fn(
        self, dataset: tf.data.Dataset, mode: str, metadata: Metadata
    ) -> tf.data.Dataset:
        """Calls the module's `dataset_fn` (or `feed`).

        Args:
            dataset: Raw records.
            mode: A `Mode`.
            metadata: What is known of the data.
        """
        return self._call(
            "dataset_fn", self._dataset_fn, dataset, mode, metadata
        )

    def eval_metrics_fn(self) -> dict[str, Any]:
        """Makes the metrics: functions or Keras metrics, new ones each time.

        Returns:
            Metric by name, or by output and name; empty if there are none.
        """
        if self._eval_metrics_fn is None:
            return {}
        metrics = self._call("eval_metrics_fn", self._eval_metrics_fn)
        if not _are_metrics(metrics, levels=2):
            raise self._wrong(
                "eval_metrics_fn() must return a dict of Keras metrics or "
                "functions by name, or of such dicts by output",
                _shown(metrics),
            )
        return metrics

    def callbacks(self) -> list[keras.callbacks.Callback]:
        """Makes the callbacks; empty if there are none."""
        import keras

        if self._callbacks is None:
            return []
        callbacks = self._call("callbacks", self._callbacks)
        if not isinstance(callbacks, (list, tuple)) or not all(
            isinstance(c, keras.callbacks.Callback) for c in callbacks
        ):
            raise self._wrong(
                "callbacks() must return a list of keras.callbacks.Callback",
                _shown(callbacks),
            )
        return list(callbacks)

    def prediction_outputs_processor(self) -> Any:
        """Returns an object with `process(predictions, worker_id)`, or None."""
        found = self._find(
            "prediction_outputs_processor", "PredictionOutputsProcessor"
        )
        if inspect.isclass(found):
            found = self._call("prediction_outputs_processor", found)
        if found is None or callable(getattr(found, "process", None)):
            return found
        raise self._wrong(
            "prediction_outputs_processor must have a method "
            "process(predictions, worker_id)",
            _shown(found),
        )

    def _call(
        self, name: str, function: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        if function is None:
            raise self._missing(name)
        try:
            return function(*args, **kwargs)
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:
            raise UserCodeError(name, error) from error

    def _find(self, *names: str) -> Any:
        for name in names:
            if getattr(self._module, name, None) is not None:
                return getattr(self._module, name)
        return None

    def _function(self, *names: str, arguments: int | None = None) -> Any:
        found = self._find(*names)
        if found is None:
            raise self._missing(names[0])
        return self._checked(names[0], found, arguments)

    def _optional(self, name: str, arguments: int | None = 0) -> Any:
        found = self._find(name)
        return None if found is None else self._checked(name, found, arguments)

    def _checked(self, name: str, found: Any, arguments: int | None) -> Any:
        if not callable(found):
            raise self._wrong(f"{name} must be a function", _shown(found))
        if arguments is not None and not _takes(found, arguments):
            raise self._wrong(
                f"{name} must take {_SIGNATURES.get(name, 'no arguments')}",
                f"{name}{_signature(found)}",
            )
        return found

    def _loss(self) -> Any:
        loss = self._find("loss")
        if loss is None:
            raise self._missing("loss")
        for part in _losses(loss):
            if inspect.isclass(part):
                raise self._wrong(
                    "loss must be a function or a loss object, not a class; "
                    f"write loss = {part.__name__}()",
                    _shown(part),
                )
            self._checked("loss", part, 2)
        return loss

    def _check_params(self) -> None:
        try:
            inspect.signature(self._model).bind(**self._params)
        except ValueError:  # A callable that does not tell its signature.
            return
        except TypeError as error:
            raise self._wrong(
                f"--model_params does not fit custom_model: {error}",
                f"model_params={self._params!r}, "
                f"custom_model{_signature(self._model)}",
            ) from error

    def _missing(self, name: str) -> ConfigError:
        near = difflib.get_close_matches(name, vars(self._module), n=1)
        hint = f" Is it meant by {near[0]!r}?" if near else ""
        return ConfigError(
            f"A model-zoo module must define {name!r}.{hint} "
            f"Received: {self._path}"
        )

    def _wrong(self, what: str, received: str) -> ConfigError:
        return ConfigError(f"{what}. Received: {received} in {self._path}")


def _losses(loss: Any) -> list[Any]:
    """Returns the loss, or those of a dict or list with one per output."""
    parts = loss.values() if isinstance(loss, dict) else loss
    if not isinstance(loss, (dict, list, tuple)):
        return [loss]
    return [part for part in parts if part is not None] or [loss]


_SIGNATURES = {
    "loss": "(labels, predictions)",
    "dataset_fn": "(dataset, mode, metadata)",
    "custom_data_reader": "(data_origin, records_per_task, **kw)",
}


def _shown(value: Any) -> str:
    """Returns a value for a message: without addresses, and not too long."""
    if type(value).__repr__ is object.__repr__ or callable(value):
        return getattr(value, "__name__", type(value).__name__)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, dict):
        pairs = (f"{key!r}: {_shown(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    return repr(value)[:200]


def _signature(function: Any) -> str:
    try:
        return str(inspect.signature(function))
    except (ValueError, TypeError):
        return "(...)"


def _takes(function: Any, arguments: int) -> bool:
    try:
        inspect.signature(function).bind(*[None] * arguments)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _are_metrics(metrics: Any, levels: int) -> bool:
    if not isinstance(metrics, dict):
        return False
    return all(
        isinstance(name, str)
        and (
            (levels > 1 and _are_metrics(metric, levels - 1))
            or (callable(metric) and not inspect.isclass(metric))
        )
        for name, metric in metrics.items()
    )
