"""What a shard reports about itself."""

import dataclasses

from elastic_keras.ps.ledger import Ledger
from elastic_keras.ps.parameters import Parameters
from elastic_keras.ps.staleness import Staleness


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
        uses_ema: Whether an optimizer keeps averages of parameters.
        pulled_bytes: Parameters handed out, as float32.
        pushed_bytes: Gradients taken, as float32.
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
    uses_ema: bool
    pulled_bytes: int
    pushed_bytes: int


def report_tables(parameters: Parameters | None) -> tuple[TableReport, ...]:
    """Returns one entry per table; may wait for an update under way."""
    if parameters is None:
        return ()
    return tuple(
        TableReport(table.spec.name, table.rows, table.nbytes)
        for table in parameters.tables
    )


def make_report(
    parameters: Parameters | None,
    tables: tuple[TableReport, ...],
    staleness: Staleness,
    ledger: Ledger,
    *,
    duplicates: int,
    pulled_bytes: int,
    pushed_bytes: int,
) -> ShardReport:
    """Collects what a shard reports.

    Args:
        parameters: Its parameters, `None` before a join.
        tables: What `report_tables` said about them.
        staleness: Its staleness.
        ledger: Its ledger.
        duplicates: Pushes of batches that the ledger held.
        pulled_bytes: Parameters handed out, as float32.
        pushed_bytes: Gradients taken, as float32.
    """
    nbytes, iterations, rate = 0, 0, 0.0
    fingerprint, ema = "", False
    if parameters is not None:
        nbytes = parameters.dense.nbytes + sum(t.nbytes for t in tables)
        iterations = parameters.iterations
        if parameters.signature.optimizers:
            rate = parameters.learning_rate(0)
        fingerprint = parameters.signature.sha256()
        ema = any(spec.use_ema for spec in parameters.signature.optimizers)
    return ShardReport(
        version=staleness.version,
        iterations=iterations,
        nbytes=nbytes,
        tables=tables,
        staleness_counts=staleness.counts,
        staleness_max=staleness.maximum,
        staleness_sum=staleness.total,
        examples_by_epoch=ledger.examples_by_epoch(),
        batches=ledger.batches,
        refused_pushes=staleness.refused,
        nonfinite_pushes=ledger.nonfinite_batches,
        nonfinite_examples=ledger.nonfinite_examples,
        duplicate_pushes=duplicates,
        members_number=staleness.clocks.number,
        learning_rate=rate,
        signature_sha256=fingerprint,
        uses_ema=ema,
        pulled_bytes=pulled_bytes,
        pushed_bytes=pushed_bytes,
    )
