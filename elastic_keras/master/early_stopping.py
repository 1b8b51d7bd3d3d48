"""Ending a job whose evaluations do not get better."""

import math
from collections.abc import Mapping

from elastic_keras.config import ConfigError

# A metric whose name holds one of these is better when larger; every other
# one (loss, error, ...) when smaller.
_LARGER_IS_BETTER = (
    "acc",
    "auc",
    "precision",
    "recall",
    "f1",
    "fbeta",
    "iou",
    "r2",
    "ndcg",
    "mrr",
    "hit",
    "similarity",
    "correlation",
    "sensitivity",
    "specificity",
)


class EarlyStopping:
    """Watches one evaluation metric.

    Args:
        metric: Its name, with or without `val_`; empty for the loss.
        patience: Evaluations in a row without improvement after which
            training ends.
    """

    def __init__(self, metric: str, patience: int) -> None:
        self._metric = (metric or "loss").removeprefix("val_")
        self._patience = patience
        name = self._metric.lower()
        self._sign = (
            1.0 if any(word in name for word in _LARGER_IS_BETTER) else -1.0
        )
        self.stopped = False
        self._best = -math.inf
        self._waited = 0

    @property
    def larger_is_better(self) -> bool:
        """Whether the metric is to grow."""
        return self._sign > 0

    def update(self, evaluation: Mapping[str, float]) -> bool:
        """Takes the results of an evaluation.

        Args:
            evaluation: Value by name.

        Returns:
            Whether training is to end.

        Raises:
            ConfigError: There is no such metric.
        """
        if self._metric not in evaluation:
            raise ConfigError(
                "--early_stopping_metric takes one of "
                f"{', '.join(sorted(evaluation))}. "
                f"Received: early_stopping_metric={self._metric!r}"
            )
        value = self._sign * evaluation[self._metric]
        # A NaN is larger than nothing: no improvement.
        if value > self._best:
            self._best = value
            self._waited = 0
            return False
        self._waited += 1
        self.stopped = self._waited >= self._patience
        return self.stopped
