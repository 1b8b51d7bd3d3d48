"""Whether a job kept its promises: nothing lost, nothing applied twice."""

import functools
import operator
from collections.abc import Sequence

from elastic_keras.master.tasks import TrainingTasks
from elastic_keras.wire.proto import ps_pb2


def nonfinite_error(
    statuses: Sequence[ps_pb2.ShardStatus], limit: int
) -> str | None:
    """Returns why NaN or Inf gradients end the job, `None` if they do not.

    Args:
        statuses: The status of each shard.
        limit: `--max_nonfinite_pushes`.
    """
    worst = max(statuses, key=lambda s: s.nonfinite_pushes, default=None)
    if worst is None or worst.nonfinite_pushes <= limit:
        return None
    return (
        f"Shard {worst.shard} refused {worst.nonfinite_pushes} batches whose "
        "gradients held a NaN or Inf. Look at the loss and the inputs, lower "
        "the learning rate or clip gradients (clipnorm of the optimizer), or "
        "let the job go on without such batches. "
        f"Received: max_nonfinite_pushes={limit}"
    )


def ledger_error(
    tasks: TrainingTasks,
    statuses: Sequence[ps_pb2.ShardStatus],
    *,
    complete: bool,
    num_epochs: int,
) -> str | None:
    """Returns how the ledgers contradict the tasks, `None` if they do not.

    Args:
        tasks: The training tasks, all of them back.
        statuses: The status of each shard.
        complete: Whether training went through all epochs, so that every
            record must have been trained.
        num_epochs: `--num_epochs`.
    """
    counts = tasks.counts()
    expected = tasks.records_per_epoch * num_epochs
    if complete and counts.records + counts.bad_records != expected:
        return (
            f"Tasks read {counts.records} records and skipped "
            f"{counts.bad_records}, but the data holds {expected} in "
            f"{num_epochs} epochs."
        )
    for status in statuses:
        held = _examples(status)
        if held == counts.examples:
            continue
        if not complete and held > counts.examples:
            # Tasks that were handed back are in the ledger, not in reports.
            continue
        return (
            f"Shard {status.shard} holds {held} examples, but the tasks "
            f"came to {counts.examples}: some were lost or applied twice."
        )
    if len({_examples(status) for status in statuses}) > 1:
        numbers = [_examples(status) for status in statuses]
        return f"Shards hold different numbers of examples: {numbers}."
    return None


def trained_examples(statuses: Sequence[ps_pb2.ShardStatus]) -> int:
    """Returns the examples that every shard has taken."""
    return min((_examples(status) for status in statuses), default=0)


def newest_epoch(statuses: Sequence[ps_pb2.ShardStatus]) -> int:
    """Returns the newest epoch in any ledger, -1 where there is none.

    Args:
        statuses: The status of each shard.
    """
    return max((e for s in statuses for e in s.examples_by_epoch), default=-1)


def steps_done(
    statuses: Sequence[ps_pb2.ShardStatus],
    bitmaps: Sequence[Sequence[bytes]] = (),
) -> int:
    """Returns the batches that every shard has taken or refused.

    Args:
        statuses: The status of each shard.
        bitmaps: For each task that may be half-pushed, each shard's batches
            of it (`ProgressReply.batches`).
    """
    done = [s.batches + s.nonfinite_pushes for s in statuses]
    for maps in bitmaps:
        numbers = _numbers(maps)
        every = functools.reduce(operator.and_, numbers)
        for shard, number in enumerate(numbers):
            done[shard] -= _ones(number & ~every)
    return min(done, default=0)


def unfinished(bitmaps: Sequence[bytes]) -> int:
    """Returns the steps that a task needs until its shards agree.

    Args:
        bitmaps: Each shard's batches: bit i of the little-endian bytes.

    Returns:
        Number of batches, up to the last one that any shard holds, that
        some shard lacks.
    """
    numbers = _numbers(bitmaps)
    some = functools.reduce(operator.or_, numbers)
    every = functools.reduce(operator.and_, numbers)
    return some.bit_length() - _ones(every)


def _numbers(bitmaps: Sequence[bytes]) -> list[int]:
    return [int.from_bytes(bitmap, "little") for bitmap in bitmaps]


def _ones(number: int) -> int:
    return bin(number).count("1")


def _examples(status: ps_pb2.ShardStatus) -> int:
    applied = sum(status.examples_by_epoch.values())
    return int(applied) + status.nonfinite_examples
