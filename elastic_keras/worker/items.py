"""What travels between the worker's threads."""

import dataclasses
from collections.abc import Callable
from typing import Any

from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.grouping import GroupedIds
from elastic_keras.worker.task_run import TaskRun
from elastic_keras.worker.values import Pulled, Push


@dataclasses.dataclass(frozen=True)
class Batch:
    """One batch as the compiled step takes it, with its ids found.

    Args:
        data: Features, labels and weights.
        ids: Per table, the unique ids grouped by shard.
        inverse: Per table, where each lookup's rows are in the grouped ids.
        examples: Examples in the batch.
    """

    data: Any
    ids: list[GroupedIds]
    inverse: Any
    examples: int


@dataclasses.dataclass(frozen=True)
class TrainBatch:
    """A batch of a training task."""

    run: TaskRun
    index: int
    batch: Batch


@dataclasses.dataclass(frozen=True)
class PulledBatch:
    """A batch with the parameters that its step computes on."""

    train: TrainBatch
    member: int
    step: int
    pulled: Pulled


@dataclasses.dataclass(frozen=True)
class ComputedBatch:
    """A batch whose gradients are on the way to the shards."""

    pulled: PulledBatch
    push: Push


@dataclasses.dataclass(frozen=True)
class Refused:
    """A batch that some shards found too stale.

    Args:
        computed: The batch and the gradients that were refused.
        shards: The shards that refused it.
    """

    computed: ComputedBatch
    shards: list[int]


@dataclasses.dataclass(frozen=True)
class TaskEnd:
    """The data of a training task is over."""

    run: TaskRun
    report: master_pb2.ReportTaskRequest


@dataclasses.dataclass(frozen=True)
class TaskError:
    """The user's code failed while a task's data was made."""

    run: TaskRun
    error: BaseException


@dataclasses.dataclass(frozen=True)
class OtherTask:
    """A task that is no training; `done` is called when it is over."""

    task: master_pb2.Task
    done: Callable[[], None]


@dataclasses.dataclass(frozen=True)
class Interrupt:
    """An evaluation interrupts training; `resume` is called afterwards."""

    resume: Callable[[], None]


@dataclasses.dataclass(frozen=True)
class StopTraining:
    """No further step may start: hand the training tasks back.

    `resume` is called afterwards.
    """

    resume: Callable[[], None]


@dataclasses.dataclass(frozen=True)
class EndTraining:
    """Training ends: let the main thread stop it when it gets there."""


@dataclasses.dataclass(frozen=True)
class AllComputed:
    """No batch follows; `done` is called once those before have landed."""

    done: Callable[[], None]


@dataclasses.dataclass(frozen=True)
class Lost:
    """The master does not know this worker any more: join again."""


@dataclasses.dataclass(frozen=True)
class JobOver:
    """The master has no more use for this worker."""
