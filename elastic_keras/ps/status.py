"""What a shard reports about itself."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class TableReport:
    """One table's name, its rows and the memory that they use."""

    name: str
    rows: int
    nbytes: int


@dataclasses.dataclass(frozen=True)
class ShardReport:
    """The state of a shard in numbers.

    Args:
        version: Pushes applied.
        iterations: Optimizer updates made.
        nbytes: Memory of all parameters and their slots.
        tables: One entry per table.
        staleness_counts: Histogram of applied pushes; the last entry counts
            everything from its index on.
        staleness_max: Largest staleness applied.
        staleness_sum: Sum of the staleness applied.
        examples_by_epoch: Examples applied (or buffered), per epoch.
        batches: Batches applied (or buffered).
        refused_pushes: Pushes refused as too stale.
        nonfinite_pushes: Batches refused for a NaN or Inf.
        nonfinite_examples: Their examples.
        duplicate_pushes: Pushes of batches that the ledger held.
        members_number: Number of the newest list of members, or -1.
        learning_rate: Present rate of the model's first optimizer.
        signature_sha256: Fingerprint of the model; empty before a join.
    """

    version: int
    iterations: int
    nbytes: int
    tables: tuple[TableReport, ...]
    staleness_counts: tuple[int, ...]
    staleness_max: int
    staleness_sum: int
    examples_by_epoch: dict[int, int]
    batches: int
    refused_pushes: int
    nonfinite_pushes: int
    nonfinite_examples: int
    duplicate_pushes: int
    members_number: int
    learning_rate: float
    signature_sha256: str
