"""A shard without sockets: pushes, pulls, bounds, and what it refuses."""

import dataclasses
import threading

import numpy as np
import pytest

from elastic_keras import routing
from elastic_keras.config import StalenessOptions
from elastic_keras.ps.answers import Outcome
from elastic_keras.ps.errors import BadRequestError, NotReadyError
from elastic_keras.ps.push import Gradients, Push, Rows
from elastic_keras.ps.shard import Shard
from elastic_keras.signature import (
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    ScheduleSpec,
    StateSpec,
    TableSpec,
)

SGD = OptimizerSpec("sgd", 0.5, hyper={"momentum": 0.0, "nesterov": 0.0})
MODEL = ModelSignature(
    seed=3,
    optimizers=(SGD,),
    dense=(DenseSpec("kernel", (2, 2)), DenseSpec("bias", (2,))),
    states=(StateSpec("mean", (3,)),),
    tables=(
        TableSpec("users", 2, InitializerSpec("constant", 1.0)),
        TableSpec("items", 3, InitializerSpec("uniform", -1.0, 1.0)),
    ),
)


def make_shard(model: ModelSignature = MODEL, **options) -> Shard:
    shard = Shard(0, 1, StalenessOptions(**options))
    shard.adopt(model)
    placement = routing.place(model, 1)[0]
    shard.init_dense(
        np.zeros(placement.dense_size, np.float32),
        np.zeros(placement.states_size, np.float32),
    )
    shard.set_members(1, [1, 2])
    return shard


def gradients(
    users=(), rows=1.0, dense=1.0, states=0.0, table: int = 0
) -> Gradients:
    ids = np.asarray(users, np.int64)
    dim = MODEL.tables[table].dim
    return Gradients(
        [Rows(table, ids, np.full((len(ids), dim), rows, np.float32))],
        np.full(6, dense, np.float32),
        np.full(3, states, np.float32),
    )


def make_push(batch=0, what: Gradients | None = None, **fields) -> Push:
    push = Push(
        epoch=0,
        task=0,
        batch=batch,
        examples=8,
        member=1,
        step=batch,
        pull_version=0,
        gradients=gradients() if what is None else what,
    )
    return dataclasses.replace(push, **fields)


def read(shard: Shard):
    """Everything that a push could have changed."""
    parameters = shard._parameters
    exports = []
    for table in parameters.tables:
        ids, weights, slots = table.export()
        order = np.argsort(ids)
        exports.append((ids[order].tolist(), weights[order].tolist()))
        exports.append({n: s[order].tolist() for n, s in slots.items()})
    return (
        parameters.dense.values.tolist(),
        parameters.dense.states.tolist(),
        {n: s.tolist() for n, s in parameters.dense.slots().items()},
        exports,
        shard._books._ledger.to_state(),
        len(shard._buffer),
        # The memory in use depends on what the kernel has paged in.
        dataclasses.replace(shard.report(), nbytes=0, tables=()),
    )


def users(shard: Shard, *ids: int) -> np.ndarray:
    return shard.pull([(0, np.array(ids, np.int64))]).rows[0]


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


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["rows", "dense", "states"])
def test_a_nonfinite_value_is_counted_and_not_applied(bad, where):
    shard = make_shard()
    parameters = read(shard)[:4]
    push = make_push(what=gradients([5], **{where: bad}))
    assert shard.push(push).outcome is Outcome.NONFINITE
    assert shard.push(push).outcome is Outcome.NONFINITE
    assert read(shard)[:4] == parameters
    report = shard.report()
    assert report.version == 0
    assert (report.nonfinite_pushes, report.nonfinite_examples) == (1, 8)
    assert shard.progress(0, 0)[0] == b"\x01"
    assert shard._books._staleness.clocks.clock(1) == 1


def test_a_worker_may_say_nonfinite_itself():
    shard = make_shard()
    push = make_push(nonfinite=True)
    push = dataclasses.replace(push, gradients=None)
    assert shard.push(push).outcome is Outcome.NONFINITE
    assert shard.report().nonfinite_pushes == 1


def _rows(table=0, ids=(1, 2), shape=(2, 2), ids_dtype=np.int64, **kw):
    return Rows(
        table,
        np.array(ids, ids_dtype),
        np.zeros(shape, kw.get("dtype", np.float32)),
    )


def _with_rows(*rows):
    return Gradients(rows, gradients().dense, gradients().state_deltas)


BAD_PUSHES = {
    "key.epoch": make_push(epoch=-1),
    "key.task": make_push(task=-1),
    "key.batch": make_push(batch=1 << 40),
    "examples": make_push(examples=-1),
    "member": make_push(member=-1),
    "step": make_push(step=-1),
    "pull_version: must": make_push(pull_version=-1),
    "pull_version: this shard is at version 1": make_push(1, pull_version=2),
    "gradients: absent": dataclasses.replace(make_push(), gradients=None),
    "table: the model has 2 tables": make_push(what=_with_rows(_rows(2))),
    "table: the model": make_push(what=_with_rows(_rows(-1))),
    "at most once": make_push(what=_with_rows(_rows(), _rows(ids=(7, 8)))),
    r"tables\[users\].ids: must be unique": make_push(
        what=_with_rows(_rows(ids=(4, 4)))
    ),
    r"tables\[users\].ids: must be int64": make_push(
        what=_with_rows(_rows(ids_dtype=np.int32))
    ),
    r"tables\[users\].ids: must be int64 of shape": make_push(
        what=_with_rows(_rows(ids=((1, 2),)))
    ),
    r"tables\[items\].gradients: .* \(2, 3\)": make_push(
        what=_with_rows(_rows(table=1))
    ),
    r"tables\[users\].gradients: .* shape \(2, 2\)": make_push(
        what=_with_rows(_rows(shape=(3, 2)))
    ),
    r"tables\[users\].gradients: .*float64": make_push(
        what=_with_rows(_rows(dtype=np.float64))
    ),
    "dense: .* shape .6": make_push(
        what=Gradients([], np.zeros(5, np.float32), np.zeros(3, np.float32))
    ),
    "dense: .*float64": make_push(
        what=Gradients([], np.zeros(6), np.zeros(3, np.float32))
    ),
    "state_deltas: .* shape .3": make_push(
        what=Gradients([], np.zeros(6, np.float32), np.zeros(0, np.float32))
    ),
}


@pytest.mark.parametrize("message", BAD_PUSHES)
@pytest.mark.parametrize("grads_to_wait", [1, 2])
def test_a_bad_push_changes_nothing(message, grads_to_wait):
    shard = make_shard(grads_to_wait=grads_to_wait)
    for batch in range(100, 100 + grads_to_wait):
        shard.push(make_push(batch, gradients([1, 9]), step=batch - 100))
    if "at version 1" in message and grads_to_wait == 2:
        message = message.replace("version 1", "version 2")
        push = make_push(1, pull_version=3)
    else:
        push = BAD_PUSHES[message]
    before = read(shard)
    with pytest.raises(BadRequestError, match=message):
        shard.push(push)
    assert read(shard) == before


def test_rows_of_another_shard_are_refused():
    shard = Shard(1, 3, StalenessOptions())
    shard.adopt(MODEL)
    placement = routing.place(MODEL, 3)[1]
    shard.init_dense(
        np.zeros(placement.dense_size, np.float32),
        np.zeros(placement.states_size, np.float32),
    )
    ids = np.arange(50)
    ours = ids[routing.owners(ids, 3) == 1]
    theirs = ids[routing.owners(ids, 3) != 1]
    assert shard.pull([(0, ours)]).rows[0].shape == (len(ours), 2)
    with pytest.raises(BadRequestError, match="shard 1 of 3 does not own"):
        shard.pull([(0, np.append(ours, theirs[:1]))])


def test_a_model_comes_first_then_values():
    shard = Shard(0, 1, StalenessOptions())
    with pytest.raises(NotReadyError, match="no model yet"):
        shard.pull([])
    assert shard.adopt(MODEL) == MODEL
    assert not shard.initialized
    with pytest.raises(NotReadyError, match="no dense parameters yet"):
        shard.push(make_push())
    with pytest.raises(BadRequestError, match="dense: must be float32"):
        shard.init_dense(np.zeros(3, np.float32), np.zeros(3, np.float32))
    with pytest.raises(BadRequestError, match="NaN or Inf"):
        shard.init_dense(np.full(6, np.nan, "f4"), np.zeros(3, np.float32))
    assert shard.init_dense(np.full(6, 7.0, "f4"), np.zeros(3, np.float32))
    assert not shard.init_dense(np.zeros(6, "f4"), np.zeros(3, "f4"))
    np.testing.assert_array_equal(shard.pull([]).dense, np.full(6, 7.0))


def test_the_first_model_stays():
    shard = make_shard()
    other = dataclasses.replace(MODEL, seed=4)
    assert shard.adopt(other) == MODEL


def test_a_model_that_shards_cannot_run_is_refused():
    shard = Shard(0, 1, StalenessOptions())
    bad = dataclasses.replace(MODEL, optimizers=(OptimizerSpec("lamb", 0.1),))
    with pytest.raises(BadRequestError, match="lamb"):
        shard.adopt(bad)
    assert shard.adopt(MODEL) == MODEL


def test_the_learning_rate_can_be_set():
    shard = make_shard()
    shard.set_learning_rate(0, 0.125)
    shard.push(make_push())
    np.testing.assert_array_equal(shard.pull([]).dense, np.full(6, -0.125))
    assert shard.report().learning_rate == 0.125


@pytest.mark.parametrize("rate", [np.nan, np.inf, -0.1])
def test_a_rate_that_is_none_is_refused(rate):
    shard = make_shard()
    with pytest.raises(BadRequestError, match="learning_rate: must be finite"):
        shard.set_learning_rate(0, rate)
    with pytest.raises(BadRequestError, match="optimizer: "):
        shard.set_learning_rate(1, 0.1)
    assert shard.report().learning_rate == 0.5


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


@pytest.mark.parametrize(
    ("number", "members", "field"),
    [(-1, [1], "number"), (1, [-1], "members"), (1, [4, 4], "members")],
)
def test_a_wrong_list_of_members_is_refused(number, members, field):
    shard = make_shard()
    before = read(shard)
    with pytest.raises(BadRequestError, match=f"{field}: "):
        shard.set_members(number, members)
    assert read(shard) == before


def test_half_an_update_ends_the_shard(monkeypatch):
    shard = make_shard()

    def broken(*args, **kwargs):
        raise MemoryError("no room")

    monkeypatch.setattr(shard._parameters.dense, "apply", broken)
    with pytest.raises(MemoryError):
        shard.push(make_push(what=gradients([1])))
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="in the middle of an update"):
        shard.push(make_push(what=gradients([1])))


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
