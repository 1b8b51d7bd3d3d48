"""What a job found out about its model on the way."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Point:
    """Metric values at one moment of the job.

    Args:
        step: Of an evaluation the optimizer's iterations, of an epoch the
            batches trained so far.
        epoch: The epoch, from 0.
        values: Value by metric.
    """

    step: int
    epoch: int
    values: dict[str, float]


class History:
    """Evaluations, and training metrics by epoch, in order."""

    def __init__(self) -> None:
        self.evaluations: list[Point] = []
        self.epochs: list[Point] = []

    @property
    def evaluation(self) -> dict[str, float]:
        """Results of the newest evaluation."""
        return self.evaluations[-1].values if self.evaluations else {}

    def add_epoch(self, point: Point) -> None:
        """Adds an epoch's training metrics, in the order of the epochs."""
        self.epochs = sorted([*self.epochs, point], key=lambda p: p.epoch)

    def has_epoch(self, epoch: int) -> bool:
        """Returns whether an epoch's training metrics are there."""
        return any(point.epoch == epoch for point in self.epochs)

    def epoch_logs(self, epoch: int) -> dict[str, float]:
        """Returns Keras logs of an epoch: `val_` for evaluations in it."""
        logs: dict[str, float] = {}
        for point in self.epochs:
            if point.epoch == epoch:
                logs.update(point.values)
        for point in self.evaluations:
            if point.epoch == epoch:
                logs.update({f"val_{k}": v for k, v in point.values.items()})
        return logs

    def to_state(self) -> dict[str, Any]:
        """Returns everything as plain data."""
        return {
            "evaluations": [dataclasses.asdict(p) for p in self.evaluations],
            "epochs": [dataclasses.asdict(p) for p in self.epochs],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Takes over what `to_state` returned."""
        self.evaluations = [Point(**raw) for raw in state["evaluations"]]
        self.epochs = [Point(**raw) for raw in state["epochs"]]

    def evaluations_to_json(self) -> list[dict[str, Any]]:
        """Returns the evaluations for result.json."""
        return [_to_json(point) for point in self.evaluations]

    def epochs_to_json(self) -> list[dict[str, Any]]:
        """Returns the training metrics of the epochs for result.json."""
        return [_to_json(point) for point in self.epochs]


def _to_json(point: Point) -> dict[str, Any]:
    # People count epochs from 1, as `epochs` and the progress line do.
    return {**dataclasses.asdict(point), "epoch": point.epoch + 1}
