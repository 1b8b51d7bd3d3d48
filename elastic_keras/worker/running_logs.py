"""Logs for batch hooks that run over more than one task."""

import numpy as np

from elastic_keras.worker.metrics import MetricSet

_States = dict[str, list[np.ndarray]]


class RunningLogs:
    """The values of metrics over an epoch's or evaluation's tasks.

    The metrics themselves begin anew with each task, since tasks are
    reported one by one. Keras's logs of a batch are those since the epoch's
    begin: here, of the batches that this worker trained.

    Args:
        metrics: The metrics of the task at hand.
    """

    def __init__(self, metrics: MetricSet) -> None:
        self._metrics = metrics
        self._before: _States = {}

    def restart(self) -> None:
        """Begins an epoch or an evaluation."""
        self._before = {}

    def end_task(self, states: _States) -> None:
        """Takes note of a task that is over.

        Args:
            states: The metrics' states of it.
        """
        self._before = self._with_before(states)

    def result(self) -> dict[str, float]:
        """Returns the value of each metric by its name."""
        if not self._before:
            return self._metrics.result()
        return self._metrics.result_from(
            self._with_before(self._metrics.state())
        )

    def _with_before(self, states: _States) -> _States:
        if not self._before:
            return {name: list(arrays) for name, arrays in states.items()}
        return {
            name: [
                np.asarray(one + other)
                for one, other in zip(self._before[name], arrays, strict=True)
            ]
            for name, arrays in states.items()
        }
