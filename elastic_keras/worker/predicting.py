"""A worker's predictions: to the user's processor, to a file, or both."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.predictions import parts

_ONLY = "predictions"


class Predicting:
    """Takes the outputs of a task's batches.

    Args:
        job_dir: The job directory.
        worker: This worker's index.
        processor: The module's `prediction_outputs_processor`, or `None`.
        to_file: Whether outputs go to a file as well.
        output_names: The model's names of its outputs; may be empty.
    """

    def __init__(
        self,
        *,
        job_dir: str,
        worker: int,
        processor: Any,
        to_file: bool,
        output_names: Sequence[str] = (),
    ) -> None:
        self._job_dir = job_dir
        self._worker = worker
        self._processor = processor
        self._to_file = to_file
        self._output_names = list(output_names)
        self._batches: list[dict[str, np.ndarray]] = []

    def begin(self) -> None:
        """Begins a task."""
        self._batches = []

    def add(self, outputs: Any) -> None:
        """Takes the outputs of a batch.

        Args:
            outputs: What the model returned, nested as it is.

        Raises:
            ConfigError: Outputs that a file cannot hold.
        """
        arrays = tf.nest.map_structure(_array, outputs)
        if self._to_file:
            self._batches.append(named(arrays, self._output_names))
        if self._processor is not None:
            self._processor.process(arrays, self._worker)

    def end(self, task: int) -> None:
        """Writes the task's outputs.

        Args:
            task: Its number.
        """
        if not self._to_file or not self._batches:
            return
        names = list(self._batches[0])
        try:
            joined = {
                name: np.concatenate([batch[name] for batch in self._batches])
                for name in names
            }
        except ValueError as error:
            shapes = {
                name: sorted({b[name].shape[1:] for b in self._batches})
                for name in names
            }
            raise ConfigError(
                "Outputs whose shape differs from batch to batch make no "
                "file: write them with a prediction_outputs_processor. "
                f"Received: shapes {shapes} for an example"
            ) from error
        parts.write(self._job_dir, task, joined)
        self._batches = []


def named(outputs: Any, output_names: Sequence[str] = ()) -> dict[str, Any]:
    """Returns nested outputs by name.

    Args:
        outputs: An array, or a dict, list or tuple of outputs.
        output_names: Names for a list's entries; else they are numbered.

    Returns:
        Array by name: `predictions` for a single output, a dict's keys,
        joined by `/` where it is nested.
    """
    if not isinstance(outputs, (dict, list, tuple)):
        return {_ONLY: outputs}
    if isinstance(outputs, dict):
        entries = list(outputs.items())
    elif len(output_names) == len(outputs):
        entries = list(zip(output_names, outputs, strict=True))
    else:
        entries = [(f"{_ONLY}_{i}", each) for i, each in enumerate(outputs)]
    found: dict[str, Any] = {}
    for name, entry in entries:
        for inner, array in named(entry).items():
            found[str(name) if inner == _ONLY else f"{name}/{inner}"] = array
    return found


def _array(tensor: Any) -> np.ndarray:
    if isinstance(tensor, tf.RaggedTensor):
        raise ConfigError(
            "Ragged outputs cannot be predicted: return dense ones. "
            f"Received: an output of shape {tensor.shape}"
        )
    if isinstance(tensor, tf.SparseTensor):
        tensor = tf.sparse.to_dense(tensor)
    if tensor.dtype in (tf.bfloat16, tf.float16):
        tensor = tf.cast(tensor, tf.float32)
    array = np.asarray(tensor.numpy())
    # Texts, which NumPy has as objects.
    return array.astype(np.bytes_) if array.dtype == object else array
