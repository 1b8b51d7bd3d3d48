"""A shard without sockets: pushes, pulls and bounds."""

import dataclasses
import threading

import numpy as np

from elastic_keras.ps.answers import Outcome
from elastic_keras.signature import ScheduleSpec
from tests.ps.stand_ins import (
    MODEL,
    SGD,
    gradients,
    make_push,
    make_shard,
    read,
    users,
)


def test_a_push_moves_dense_states_and_rows():
    shard = make_shard()
    result = shard.push(make_push(what=gradients([5], rows=2.0, states=0.25)))
    assert result.outcome is Outcome.APPLIED
    assert result.version == 1
    pulled = shard.pull([(0, np.array([5, 6], np.int64))])
    np.testing.assert_array_equal(pulled.rows[0], [[0, 0], [1, 1]])
    np.testing.assert_array_equal(pulled.dense, np.full(6, -0.5))
    np.testing.assert_array_equal(pulled.states, np.full(3, 0.25))
    assert (pulled.version, pulled.iterations) == (1, 1)


def test_reads_create_nothing():
    shard = make_shard()
    before = read(shard)
    shard.pull([(0, np.arange(100)), (1, np.arange(100))])
    assert read(shard) == before
    assert [t.rows for t in shard.report().tables] == [0, 0]


def test_bytes_are_counted_both_ways():
    shard = make_shard()
    pulled = shard.pull([(0, np.arange(5))])
    # Dense parameters and states, and five rows of two.
    assert shard.report().pulled_bytes == 4 * (6 + 3 + 5 * 2)
    shard.pull([(1, np.arange(2))], dense_version=pulled.dense_version)
    assert shard.report().pulled_bytes == 4 * (19 + 2 * 3)
    shard.push(make_push(what=gradients([5, 6])))
    # A duplicate is not taken.
    shard.push(make_push(what=gradients([5, 6])))
    assert shard.report().pushed_bytes == 4 * (6 + 3 + 2 * 2)


def test_dense_is_left_out_where_the_caller_has_the_newest():
    shard = make_shard()
    first = shard.pull([])
    assert first.dense is not None
    again = shard.pull([], dense_version=first.dense_version)
    assert again.dense is None
    assert again.states is None
    shard.push(make_push())
    assert shard.pull([], dense_version=first.dense_version).dense is not None


def test_a_second_arrival_is_a_duplicate():
    shard = make_shard()
    shard.push(make_push(what=gradients([5])))
    before = read(shard)[:-1]
    result = shard.push(make_push(what=gradients([5]), member=2))
    assert result.outcome is Outcome.DUPLICATE
    assert read(shard)[:-1] == before
    assert shard.report().duplicate_pushes == 1
    # The second worker's step counts as finished nevertheless.
    assert shard.may_pull(2, 1, recompute=False)


def test_examples_and_batches_are_counted_per_epoch():
    shard = make_shard()
    shard.push(make_push(0))
    shard.push(make_push(1, examples=3))
    shard.push(make_push(0, epoch=1, step=2))
    report = shard.report()
    assert report.examples_by_epoch == {0: 11, 1: 8}
    assert report.batches == 3
    assert shard.progress(0, 0) == (b"\x03", 11)
    assert shard.progress(4, 0) == (b"", 0)


def test_the_first_model_stays():
    shard = make_shard()
    other = dataclasses.replace(MODEL, seed=4)
    assert shard.adopt(other) == MODEL


def test_the_learning_rate_can_be_set():
    shard = make_shard()
    shard.set_learning_rate(0, 0.125)
    shard.push(make_push())
    np.testing.assert_array_equal(shard.pull([]).dense, np.full(6, -0.125))
    assert shard.report().learning_rate == 0.125


def test_a_schedule_goes_by_the_iterations():
    schedule = ScheduleSpec(
        "ExponentialDecay",
        {
            "initial_learning_rate": 1.0,
            "decay_steps": 1,
            "decay_rate": 0.5,
            "staircase": False,
        },
    )
    optimizer = dataclasses.replace(SGD, schedule=schedule)
    shard = make_shard(dataclasses.replace(MODEL, optimizers=(optimizer,)))
    rates = []
    for batch in range(3):
        rates.append(shard.report().learning_rate)
        shard.push(make_push(batch))
    assert rates == [1.0, 0.5, 0.25]
    np.testing.assert_allclose(shard.pull([]).dense, np.full(6, -1.75))


def test_dampen_scales_the_update_of_a_stale_push():
    shard = make_shard(staleness_policy="dampen", max_staleness=1)
    for batch in range(4):
        shard.push(make_push(batch, gradients(dense=0.0), pull_version=batch))
    result = shard.push(make_push(4, pull_version=0))
    assert result.staleness == 4
    np.testing.assert_allclose(shard.pull([]).dense, np.full(6, -0.125))


def test_recompute_refuses_and_then_takes_the_push():
    shard = make_shard(staleness_policy="recompute", max_staleness=1)
    for batch in range(2):
        shard.push(make_push(batch, pull_version=batch))
    before = read(shard)[:5]
    late = make_push(9, member=2, step=0, pull_version=0)
    assert shard.push(late).outcome is Outcome.REFUSED
    assert read(shard)[:5] == before
    assert shard.report().refused_pushes == 1
    late = dataclasses.replace(late, pull_version=2)
    assert shard.push(late).outcome is Outcome.APPLIED
    assert shard.report().staleness_max == 0


def test_grads_to_wait_applies_the_mean_once():
    shard = make_shard(grads_to_wait=3)
    shard.push(make_push(0, gradients([1, 2], rows=1.0, dense=3.0)))
    shard.push(make_push(1, gradients([2, 3], rows=2.0, dense=1.0)))
    pulled = shard.pull([])
    assert (pulled.version, pulled.iterations) == (0, 0)
    assert shard.report().batches == 2
    shard.push(make_push(2, gradients([2], rows=3.0, dense=2.0, states=3.0)))
    pulled = shard.pull([(0, np.array([1, 2, 3]))])
    assert (pulled.version, pulled.iterations) == (3, 1)
    # Rows: by the pushes that held them; dense and states: by three.
    np.testing.assert_array_equal(pulled.rows[0], [[0.5, 0.5], [0, 0], [0, 0]])
    np.testing.assert_array_equal(pulled.dense, np.full(6, -1.0))
    np.testing.assert_array_equal(pulled.states, np.full(3, 1.0))
    assert shard.report().staleness_counts[0] == 3


def test_a_buffered_batch_is_in_the_ledger():
    shard = make_shard(grads_to_wait=2)
    shard.push(make_push(0))
    assert shard.push(make_push(0)).outcome is Outcome.DUPLICATE
    assert shard.version == 0


def test_flush_applies_what_there_is_and_then_nothing():
    shard = make_shard(grads_to_wait=4)
    shard.push(make_push(0, gradients([1], rows=1.0, dense=1.0)))
    shard.push(make_push(1, gradients([1], rows=3.0, dense=3.0)))
    assert shard.flush() == (2, 1)
    np.testing.assert_array_equal(users(shard, 1), [[0, 0]])
    np.testing.assert_array_equal(shard.pull([]).dense, np.full(6, -1.0))
    before = read(shard)
    assert shard.flush() == (2, 1)
    assert read(shard) == before


def test_a_stale_push_weighs_less_in_the_mean():
    shard = make_shard(
        staleness_policy="dampen", max_staleness=1, grads_to_wait=2
    )
    for batch in range(4):
        shard.push(make_push(batch, gradients(dense=0.0)))
    assert shard.version == 4
    shard.push(make_push(4, gradients(dense=1.0), pull_version=0))
    shard.push(make_push(5, gradients(dense=1.0), pull_version=4))
    np.testing.assert_allclose(
        shard.pull([]).dense, np.full(6, -0.5 * (0.25 + 1) / 2)
    )


def test_finalize_sends_the_averages():
    ema = dataclasses.replace(SGD, use_ema=True, ema_momentum=0.5)
    shard = make_shard(dataclasses.replace(MODEL, optimizers=(ema,)))
    for batch in range(3):
        shard.push(make_push(batch))
    before = shard.pull([])
    shard.finalize()
    after = shard.pull([], dense_version=before.dense_version)
    assert after.dense is not None
    assert np.all(after.dense > before.dense)
    assert after.version == before.version
    assert shard.pull([], dense_version=after.dense_version).dense is None


def test_a_listener_hears_of_what_may_grant_a_pull():
    shard = make_shard()
    heard = []
    shard.on_change(lambda: heard.append(1))
    assert shard.may_pull(1, 0, recompute=False)
    assert not shard.may_pull(1, 1, recompute=False)
    shard.push(make_push(0))
    assert len(heard) == 1
    assert not shard.may_pull(1, 1, recompute=False)
    shard.set_members(2, [1])
    assert len(heard) == 2
    assert shard.may_pull(1, 1, recompute=False)


def _in_threads(*functions):
    barrier = threading.Barrier(len(functions))
    errors = []

    def run(function):
        try:
            barrier.wait()
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(f,)) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_two_pushes_on_one_new_row_both_count():
    for _ in range(20):
        shard = make_shard(staleness_policy="unbounded")
        _in_threads(
            lambda shard=shard: shard.push(
                make_push(0, gradients([77], rows=1.0))
            ),
            lambda shard=shard: shard.push(
                make_push(1, gradients([77], rows=2.0), member=2)
            ),
        )
        assert shard.report().tables[0].rows == 1
        np.testing.assert_array_equal(users(shard, 77), [[-0.5, -0.5]])


def test_one_batch_pushed_by_many_threads_is_applied_once():
    shard = make_shard(staleness_policy="unbounded")
    outcomes = []

    def push():
        outcomes.append(shard.push(make_push(0, gradients([5]))).outcome)

    _in_threads(*[push] * 8)
    assert outcomes.count(Outcome.APPLIED) == 1
    assert outcomes.count(Outcome.DUPLICATE) == 7
    np.testing.assert_array_equal(users(shard, 5), [[0.5, 0.5]])


def test_a_pull_holds_every_push_up_to_its_version():
    """Every push adds -0.5 to all values, so that a value tells its number."""
    shard = make_shard(staleness_policy="unbounded")
    pushes, stop = 200, threading.Event()

    def push():
        for batch in range(pushes):
            shard.push(make_push(batch, gradients([5])))
        stop.set()

    def pull():
        version = -1
        while not stop.is_set():
            pulled = shard.pull([(0, np.array([5]))])
            assert len(set(pulled.dense.tolist())) == 1
            assert len(set(pulled.rows[0][0].tolist())) == 1
            assert round(-2 * pulled.dense[0]) >= pulled.version >= version
            assert round(2 - 2 * pulled.rows[0][0, 0]) >= pulled.version
            version = pulled.version

    _in_threads(push, pull, pull)
    assert shard.version == pushes
