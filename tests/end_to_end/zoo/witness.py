"""`clicks` with a callback that writes down what it is told."""

import json
import os

import keras
import numpy as np

from .clicks import (  # noqa: F401
    custom_model,
    dataset_fn,
    eval_metrics_fn,
    loss,
    optimizer,
)


class Witness(keras.callbacks.Callback):
    """Writes hooks, logs and the dense parameters to a folder."""

    def __init__(self, folder):
        super().__init__()
        self._folder = folder
        self._heard = []

    def on_train_begin(self, logs=None):
        self._heard.append(["train begin", {}])

    def on_epoch_end(self, epoch, logs=None):
        self._heard.append([f"epoch {epoch} end", logs or {}])

    def on_train_end(self, logs=None):
        self._heard.append(["train end", logs or {}])
        dense = {
            variable.path: np.asarray(variable)
            for variable in self.model.trainable_variables
        }
        np.savez(os.path.join(self._folder, "dense.npz"), **dense)
        with open(os.path.join(self._folder, "heard.json"), "w") as file:
            json.dump(self._heard, file)


def callbacks():
    folder = os.environ.get("EK_WITNESS")
    return [Witness(folder)] if folder else []
