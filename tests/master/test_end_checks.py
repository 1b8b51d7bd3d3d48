import itertools

import pytest

from elastic_keras.master import end_checks
from elastic_keras.master.tasks import TrainingTasks
from elastic_keras.master.work import Counts
from elastic_keras.wire.proto import ps_pb2
from tests.master.stand_ins import ranges


def _finished(*counts, examples=None, bad=0):
    """Tasks of one epoch, reported as read completely."""
    tasks = TrainingTasks(
        ranges(*counts),
        num_epochs=1,
        seed=0,
        shuffle=False,
        leases=itertools.count(1),
    )
    tasks.allow(0)
    while (lease := tasks.take(1)) is not None:
        records = lease.item.range.count - bad
        made = records if examples is None else examples
        tasks.finish(
            lease, Counts(records=records, examples=made, bad_records=bad)
        )
    return tasks


def _status(shard=0, **fields):
    return ps_pb2.ShardStatus(shard=shard, **fields)


def _error(tasks, statuses, *, complete=True, num_epochs=1):
    return end_checks.ledger_error(
        tasks, statuses, complete=complete, num_epochs=num_epochs
    )


def test_ledgers_that_agree():
    statuses = [_status(i, examples_by_epoch={0: 7}) for i in range(2)]
    assert _error(_finished(4, 3), statuses) is None
    # Skipped records and filtered or added examples are accounted for.
    statuses = [_status(examples_by_epoch={0: 5})]
    assert _error(_finished(4, 3, bad=1), statuses) is None
    statuses = [_status(examples_by_epoch={0: 18})]
    assert _error(_finished(4, 3, examples=9), statuses) is None
    # A refused batch is in one shard's ledger as such, applied in another's.
    statuses = [
        _status(0, examples_by_epoch={0: 5}, nonfinite_examples=2),
        _status(1, examples_by_epoch={0: 7}),
    ]
    assert _error(_finished(4, 3), statuses) is None


@pytest.mark.parametrize("held", [6, 8])
def test_a_lost_or_repeated_example_is_noticed(held):
    statuses = [
        _status(0, examples_by_epoch={0: 7}),
        _status(1, examples_by_epoch={0: held}),
    ]
    error = _error(_finished(4, 3), statuses)
    assert error.startswith(f"Shard 1 holds {held} examples")


def test_a_record_that_no_task_read_is_noticed():
    tasks = _finished(4, 3)
    statuses = [_status(examples_by_epoch={0: 7})]
    error = _error(tasks, statuses, num_epochs=2)
    assert "holds 14 in 2 epochs" in error
    assert _error(tasks, statuses, num_epochs=2, complete=False) is None


def test_a_job_that_ended_inside_a_task():
    tasks = _finished(4, 3)
    more = [_status(i, examples_by_epoch={0: 7, 1: 2}) for i in range(2)]
    assert _error(tasks, more, complete=False) is None
    less = [_status(examples_by_epoch={0: 6})]
    assert _error(tasks, less, complete=False) is not None
    more[1] = _status(1, examples_by_epoch={0: 7, 1: 1})
    error = _error(tasks, more, complete=False)
    assert error == "Shards hold different numbers of examples: [9, 8]."


def test_nonfinite_pushes():
    statuses = [_status(0), _status(1, nonfinite_pushes=3)]
    assert end_checks.nonfinite_error(statuses, 3) is None
    error = end_checks.nonfinite_error(statuses, 2)
    assert error.startswith("Shard 1 refused 3 batches")
    assert error.endswith("Received: max_nonfinite_pushes=2")
    assert end_checks.nonfinite_error([], 0) is None


def _bits(*batches):
    return sum(1 << b for b in batches).to_bytes(2, "little")


def test_steps_that_a_half_pushed_task_needs():
    assert end_checks.unfinished([b"", b""]) == 0
    assert end_checks.unfinished([_bits(0, 1), _bits(0, 1)]) == 0
    assert end_checks.unfinished([_bits(0, 1), _bits(0)]) == 1
    # Batch 1 comes before batch 2, which some shard has already.
    assert end_checks.unfinished([_bits(0), _bits(0, 2)]) == 2
    assert end_checks.unfinished([_bits(1), _bits(0)]) == 2


def test_half_pushed_batches_are_no_steps():
    statuses = [_status(0, batches=5), _status(1, batches=5)]
    assert end_checks.steps_done(statuses) == 5
    # Each shard has a batch that the other lacks.
    maps = [_bits(0, 1), _bits(0, 2)]
    assert end_checks.steps_done(statuses, [maps]) == 4
    statuses[0].nonfinite_pushes = 2
    assert end_checks.steps_done(statuses) == 5
    assert end_checks.steps_done([]) == 0
