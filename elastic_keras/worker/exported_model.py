"""A model that an export holds, in place of the module's own."""

import json
import os
import pathlib
from typing import Any

import keras
import tensorflow as tf

from elastic_keras.config import ConfigError

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
            self.output_names = list(told["output_names"])
        except (*_UNREADABLE, AttributeError, TypeError) as error:
            raise ConfigError(
                f"The export cannot be loaded: {error}. "
                f"Received: {os.fspath(path)!r}"
            ) from error
        # Its variables live as long as it does.
        self._loaded = loaded

    def call(self, features: Any, training: bool | None = None) -> Any:
        """Returns the outputs, nested as the trained model's own.

        Args:
            features: Features as the trained model was called on.
            training: Ignored: it is as in evaluation.
        """
        outputs, loss = self._serve_with_loss(features)
        self.add_loss(loss)
        return outputs
