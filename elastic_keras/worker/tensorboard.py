"""Keras's own TensorBoard callback in a job."""

import os
from collections.abc import Iterable

import keras

from elastic_keras.config import ConfigError

# Keras's default: beside whatever the process was started from.
_DEFAULT = "logs"


def fit_tensorboard(
    callbacks: Iterable[keras.callbacks.Callback],
    tables: list[str],
    folder: str,
) -> None:
    """Gives callbacks without a folder of their own one in the job's.

    Args:
        callbacks: The module's callbacks.
        tables: Names of the model's PS tables.
        folder: Folder of this worker's TensorBoard run.

    Raises:
        ConfigError: One would save the model without the rows of its tables.
    """
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.TensorBoard):
            continue
        if callback.embeddings_freq and tables:
            raise ConfigError(
                "TensorBoard(embeddings_freq=...) would save the model "
                "without the rows that lie on PS shards; --projector_tables "
                "shows them. Received: embeddings_freq="
                f"{callback.embeddings_freq}, a model with the tables "
                f"{', '.join(tables)}"
            )
        if callback.log_dir == _DEFAULT:
            callback.log_dir = os.path.join(folder, "keras")


def needs_each_batch(callback: keras.callbacks.Callback) -> bool:
    """Whether a callback does anything at batches but the first.

    Logs for batch hooks take the main thread's time. Keras's TensorBoard has
    such hooks always; by default it writes the graph after the first batch,
    and then nothing before the epoch's end.

    Args:
        callback: One of the module's callbacks.
    """
    # By the exact type: one derived from it may do more.
    if type(callback) is not keras.callbacks.TensorBoard:
        return True
    return callback.update_freq != "epoch" or callback._should_trace
