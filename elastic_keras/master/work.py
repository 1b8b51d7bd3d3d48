"""What the master hands out, and what comes back."""

import dataclasses
from typing import Any

from elastic_keras.wire.proto import master_pb2

# A task fails the job when it has raised the user's exception this often.
MAX_FAILURES = 3


@dataclasses.dataclass
class Counts:
    """What tasks came to.

    Args:
        records: Good records read.
        examples: Examples that `dataset_fn` made of them.
        bad_records: Broken records that were skipped.
        batches: Batches.
    """

    records: int = 0
    examples: int = 0
    bad_records: int = 0
    batches: int = 0

    def add(self, other: "Counts") -> None:
        """Adds another's numbers to these."""
        self.records += other.records
        self.examples += other.examples
        self.bad_records += other.bad_records
        self.batches += other.batches


@dataclasses.dataclass(eq=False)
class WorkItem:
    """One thing for one worker to do.

    Args:
        kind: A `master_pb2.TaskKind`.
        task: For training the position of its range in the data; else
            unique in the job.
        epoch: The epoch it belongs to.
        range: The records, where it has any (`data.reader.RecordRange`).
        shuffle_seed: Seed of the shuffle inside the task; -1 for none.
        hook: Name of the callbacks' hook, for TASK_CALLBACK.
        logs: Keras logs for the hook.
        states: Metric states, for TASK_MERGE.
        step: The optimizer's iterations when an evaluation began.
        handed_out: How often it was handed out.
        failures: How often it raised the user's exception.
        finished: Whether a worker reported it done.
        result: The worker's answer, for TASK_MERGE and TASK_CALLBACK.
        records: Good records that a finished reading task read.
        bad_records: Broken ones that it skipped.
        examples: Examples that it made of them.
    """

    kind: int
    task: int
    epoch: int = 0
    range: Any = None
    shuffle_seed: int = -1
    hook: str = ""
    logs: dict[str, float] = dataclasses.field(default_factory=dict)
    states: master_pb2.MetricStates | None = None
    step: int = 0
    handed_out: int = 0
    failures: int = 0
    finished: bool = False
    result: str = ""
    records: int = 0
    bad_records: int = 0
    examples: int = 0

    @property
    def resumed(self) -> bool:
        """Whether another handing-out came before the present one."""
        return self.handed_out > 1


@dataclasses.dataclass(frozen=True)
class Lease:
    """One handing-out of an item to a worker.

    Args:
        number: Unique in the job; reports name it.
        worker: Who has it.
        item: What was handed out.
    """

    number: int
    worker: int
    item: WorkItem
