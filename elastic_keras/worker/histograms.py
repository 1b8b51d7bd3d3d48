"""Histograms of weights and gradients in TensorBoard."""

import logging
import math
import time
from collections.abc import Callable, Iterator

import numpy as np

from elastic_keras.monitoring.summaries import SummaryWriter
from elastic_keras.signature import ModelSignature
from elastic_keras.worker.values import Pulled, StepGradients

_LOGGER = logging.getLogger(__name__)
# Values that tell a distribution well enough; a step must not wait for more.
_MOST_VALUES = 10_000


class StepHistograms:
    """Writes histograms of one step every so many seconds.

    Of a dense parameter it takes the whole gradient, of a table the rows that
    the batch looked up and their gradients; of large ones an even sample.

    Args:
        folder: Folder of the TensorBoard run; made with the first point.
        signature: The model.
        seconds: Pause between two.
        clock: Seconds now.
    """

    def __init__(
        self,
        folder: str,
        signature: ModelSignature,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._signature = signature
        self._seconds = seconds
        self._clock = clock
        self._next = -math.inf
        self._writer: SummaryWriter | None = None

    def begin(self) -> None:
        """See `StepObserver.begin`."""

    def end(self, pulled: Pulled, gradients: StepGradients) -> None:
        """See `StepObserver.end`; a full disk does not end the job."""
        if self._clock() < self._next:
            return
        try:
            self._write(pulled, gradients)
        except OSError as error:
            _LOGGER.warning("Histograms for TensorBoard are lost: %s", error)
        self._next = self._clock() + self._seconds

    def close(self) -> None:
        """See `StepObserver.close`."""
        if self._writer is not None:
            self._writer.close()

    def _write(self, pulled: Pulled, gradients: StepGradients) -> None:
        if self._writer is None:
            self._writer = SummaryWriter(self._folder)
        step = pulled.iterations
        tables = self._signature.tables
        for table, rows, row_gradients in zip(
            tables, pulled.rows, gradients.rows, strict=True
        ):
            self._add("weights", table.name, rows, step)
            self._add("gradients", table.name, row_gradients, step)
        for name, weights in self._dense(pulled.dense.dense):
            self._add("weights", name, weights, step)
        for name, gradient in self._dense(gradients.dense):
            self._add("gradients", name, gradient, step)
        self._writer.flush()

    def _dense(self, flat: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Yields each dense parameter's part of a flat vector."""
        begin = 0
        for spec in self._signature.dense:
            end = begin + math.prod(spec.shape)
            yield spec.name, flat[begin:end]
            begin = end

    def _add(self, kind: str, name: str, values: np.ndarray, step: int) -> None:
        assert self._writer is not None
        flat = np.asarray(values).reshape(-1)
        stride = max(1, -(-flat.size // _MOST_VALUES))
        self._writer.histogram(f"{kind}/{name}", flat[::stride], step)
