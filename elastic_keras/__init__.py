"""Parameter-server training for Keras 3.

Importing this package is cheap: a name brings in what it needs when it is
first used. A shard, for one, never imports TensorFlow.
"""

import importlib
from typing import TYPE_CHECKING, Any

from elastic_keras._version import __version__

if TYPE_CHECKING:
    from elastic_keras import layers
    from elastic_keras.api import JobFailed, Result, evaluate, predict, train
    from elastic_keras.config import ConfigError
    from elastic_keras.data.reader import DataReader, Metadata, RecordRange
    from elastic_keras.fit.ps_model import PSModel
    from elastic_keras.zoo.modes import Mode

__all__ = [
    "ConfigError",
    "DataReader",
    "JobFailed",
    "Metadata",
    "Mode",
    "PSModel",
    "RecordRange",
    "Result",
    "__version__",
    "evaluate",
    "layers",
    "predict",
    "train",
]

_MODULES = {
    "ConfigError": "elastic_keras.config",
    "DataReader": "elastic_keras.data.reader",
    "JobFailed": "elastic_keras.api",
    "Metadata": "elastic_keras.data.reader",
    "Mode": "elastic_keras.zoo.modes",
    "PSModel": "elastic_keras.fit.ps_model",
    "RecordRange": "elastic_keras.data.reader",
    "Result": "elastic_keras.api",
    "evaluate": "elastic_keras.api",
    "predict": "elastic_keras.api",
    "train": "elastic_keras.api",
}
_SUBMODULES = ("layers",)


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _MODULES:
        return getattr(importlib.import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
