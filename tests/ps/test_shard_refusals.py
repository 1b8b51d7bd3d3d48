"""What a shard without sockets refuses, and that it changes nothing."""

import dataclasses

import numpy as np
import pytest

from elastic_keras import routing
from elastic_keras.config import StalenessOptions
from elastic_keras.ps.answers import Outcome
from elastic_keras.ps.errors import BadRequestError, NotReadyError
from elastic_keras.ps.push import Gradients, Rows
from elastic_keras.ps.shard import Shard
from elastic_keras.signature import OptimizerSpec
from tests.ps.stand_ins import MODEL, gradients, make_push, make_shard, read


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


def test_a_model_that_shards_cannot_run_is_refused():
    shard = Shard(0, 1, StalenessOptions())
    bad = dataclasses.replace(MODEL, optimizers=(OptimizerSpec("lamb", 0.1),))
    with pytest.raises(BadRequestError, match="lamb"):
        shard.adopt(bad)
    assert shard.adopt(MODEL) == MODEL


@pytest.mark.parametrize("rate", [np.nan, np.inf, 1e39, -0.1])
def test_a_rate_that_is_none_is_refused(rate):
    shard = make_shard()
    with pytest.raises(BadRequestError, match="learning_rate: must be finite"):
        shard.set_learning_rate(0, rate)
    with pytest.raises(BadRequestError, match="optimizer: "):
        shard.set_learning_rate(1, 0.1)
    assert shard.report().learning_rate == 0.5


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
