"""A model that an export holds, in place of the module's own."""

import json
import os
import pathlib
from typing import Any

import keras
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.worker.batches import spec_of

_UNREADABLE = (OSError, KeyError, ValueError, tf.errors.OpError)


class ExportedModel(keras.Model):
    """Calls the SavedModel of an export, whose tables are all in memory.

    It has no variables that a shard could hold.

    Args:
        path: The export's folder.

    Raises:
        ConfigError: It cannot be loaded.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # Features reach the graph in the dtypes that it was made for.
        super().__init__(name="exported", autocast=False)
        folder = pathlib.Path(path)
        try:
            said = json.loads((folder / "export.json").read_text())
            told = said["formats"]["saved_model"]
            loaded = tf.saved_model.load(str(folder / "saved_model"))
            self._serve_with_loss = loaded.serve_with_loss
            (graph,) = loaded.serve_with_loss.concrete_functions
            ((spec,), _) = graph.structured_input_signature
            self.output_names = list(told["output_names"])
        except (*_UNREADABLE, AttributeError, TypeError) as error:
            raise ConfigError(
                f"The export cannot be loaded: {error}. "
                f"Received: {os.fspath(path)!r}"
            ) from error
        # Its variables live as long as it does.
        self._loaded = loaded
        self._spec = (spec,)

    def call(self, features: Any, training: bool | None = None) -> Any:
        """Returns the outputs, nested as the trained model's own.

        Args:
            features: Features as the trained model was called on.
            training: Ignored: it is as in evaluation.

        Raises:
            ConfigError: Features of another structure, dtype or shape.
        """
        _check(self._spec[0], features)
        outputs, loss = self._serve_with_loss(features)
        self.add_loss(loss)
        return outputs


def _check(expected: Any, features: Any) -> None:
    spec = spec_of(features)
    try:
        tf.nest.assert_same_structure(expected, spec)
        fits = all(
            one.is_compatible_with(other)
            for one, other in zip(
                tf.nest.flatten(expected), tf.nest.flatten(spec), strict=True
            )
        )
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise ConfigError(
            f"The export was made for features of {expected}. "
            f"Received: dataset_fn gave features of {spec}"
        )
