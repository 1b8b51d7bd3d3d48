"""The dense parameters of a snapshot."""

import dataclasses
import math

import numpy as np

from elastic_keras.snapshots.snapshot import Snapshot


@dataclasses.dataclass(frozen=True)
class DenseReport:
    """A dense parameter.

    Args:
        name: Its name.
        shape: Its shape.
        norm: The norm of its finite values.
        min: The smallest of them.
        max: The largest of them.
        nonfinite: How many are NaN or Inf.
    """

    name: str
    shape: tuple[int, ...]
    norm: float
    min: float
    max: float
    nonfinite: int


def survey_dense(snapshot: Snapshot) -> list[DenseReport]:
    """Reads all dense parameters.

    Args:
        snapshot: The snapshot.

    Raises:
        SnapshotError: A file cannot be read.
    """
    values = snapshot.dense().values
    reports = []
    start = 0
    for spec in snapshot.signature.dense:
        size = math.prod(spec.shape)
        part = values[start : start + size].astype(np.float64)
        start += size
        finite = part[np.isfinite(part)]
        reports.append(
            DenseReport(
                name=spec.name,
                shape=spec.shape,
                norm=float(np.linalg.norm(finite)),
                min=float(finite.min()) if len(finite) else 0.0,
                max=float(finite.max()) if len(finite) else 0.0,
                nonfinite=len(part) - len(finite),
            )
        )
    return reports
