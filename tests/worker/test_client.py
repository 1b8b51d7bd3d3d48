"""The client against real shards."""

import numpy as np
import pytest

from elastic_keras.config import ConfigError, StalenessOptions, WireOptions
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import ps_pb2
from elastic_keras.worker.client import PsClient
from elastic_keras.worker.grouping import group
from elastic_keras.worker.stats import WorkerStats
from elastic_keras.worker.values import Push, StepGradients
from tests.worker import stand_ins
from tests.worker.stand_ins import JOB, Shards

MODEL = stand_ins.signature(tables=2, dense=((7, 3), (), (40,)), states=((2,),))
DENSE = 7 * 3 + 1 + 40


def _client(shards, model=MODEL, job_id=JOB, stats=None, **wire):
    return PsClient(
        shards.addresses,
        model,
        job_id=job_id,
        wire=WireOptions(**wire),
        stats=stats,
    )


def _ready(shards, **options):
    """Returns a client of shards whose dense values are 0, 1, 2, ..."""
    client = _client(shards, **options)
    client.join()
    client.init_dense(
        np.arange(DENSE, dtype=np.float32), np.asarray([5, 6], np.float32)
    )
    return client


def _ids(num_shards, *tables):
    return [group(np.asarray(ids, np.int64), num_shards)[0] for ids in tables]


def _push(ids, batch=0, versions=None, **fields):
    """Returns a push whose gradient of id i is -i, of dense j -j."""
    gradients = StepGradients(
        rows=[
            -np.repeat(g.ids[:, None], 4, axis=1).astype(np.float32)
            for g in ids
        ],
        dense=-np.arange(DENSE, dtype=np.float32),
        state_deltas=np.asarray([1, 2], np.float32),
        **fields,
    )
    shards = len(ids[0].bounds) - 1
    return Push(
        key=(0, 0, batch),
        examples=3,
        member=0,
        step=batch,
        versions=versions or (0,) * shards,
        ids=ids,
        gradients=gradients,
    )


@pytest.mark.parametrize("num_shards", [1, 2, 5])
def test_what_is_pushed_comes_back_in_order(num_shards):
    with Shards(num_shards) as shards:
        client = _ready(shards)
        ids = _ids(num_shards, [9, 4, 1000, 7, -3], [8, 2])
        replies = client.push(_push(ids))
        assert [r.status for r in replies] == (
            [ps_pb2.PushReply.APPLIED] * num_shards
        )
        asked = _ids(num_shards, [7, 4, 5, -3, 9], [])
        pulled = client.pull(asked)
    # An id that was never pushed has its initial value, zero.
    expected = np.where(asked[0].ids == 5, 0, asked[0].ids)
    np.testing.assert_array_equal(
        pulled.rows[0], np.repeat(expected[:, None], 4, axis=1)
    )
    assert pulled.rows[1].shape == (0, 4)
    np.testing.assert_array_equal(
        pulled.dense.dense, 2.0 * np.arange(DENSE, dtype=np.float32)
    )
    np.testing.assert_array_equal(pulled.dense.states, [6, 8])
    assert pulled.versions == (1,) * num_shards
    assert pulled.iterations == 1


def test_the_first_offer_of_dense_values_wins():
    with Shards(2) as shards:
        _ready(shards)
        second = _client(shards)
        second.join()
        second.init_dense(np.zeros(DENSE, np.float32), np.zeros(2, np.float32))
        pulled = second.pull(_ids(2, [], []))
    np.testing.assert_array_equal(pulled.dense.dense, np.arange(DENSE))


def test_dense_parameters_travel_only_when_they_changed():
    stats = WorkerStats()
    with Shards(2) as shards:
        client = _ready(shards, stats=stats)
        nothing = _ids(2, [], [])
        first = client.pull(nothing)
        assert stats.take().pull.bytes == 4 * (DENSE + 2)
        again = client.pull(nothing)
        assert stats.take().pull.bytes == 0
        assert again.dense is first.dense
        client.push(_push(_ids(2, [1], [])))
        changed = client.pull(nothing)
    assert changed.dense.versions == tuple(
        version + 1 for version in first.dense.versions
    )
    np.testing.assert_array_equal(
        changed.dense.dense, 2.0 * np.arange(DENSE, dtype=np.float32)
    )


@pytest.mark.parametrize(
    ("wire_dtype", "tolerance"), [("bfloat16", 2**-8), ("float16", 2**-11)]
)
def test_half_precision_halves_the_bytes(wire_dtype, tolerance):
    stats = WorkerStats()
    with Shards(2) as shards:
        client = _ready(shards, stats=stats, wire_dtype=wire_dtype)
        ids = _ids(2, [101, 77, 12345], [])
        client.push(_push(ids))
        assert stats.take().push.bytes == 2 * (DENSE + 12) + 3 * 8 + 4 * 2
        pulled = client.pull(ids)
        assert stats.take().pull.bytes == 2 * (DENSE + 12) + 4 * 2
    np.testing.assert_allclose(
        pulled.rows[0][:, 0], ids[0].ids, rtol=2 * tolerance
    )
    assert pulled.rows[0].dtype == np.float32


@pytest.mark.parametrize("shared_memory", [False, True])
@pytest.mark.parametrize("compression", ["none", "lz4", "snappy", "zstd"])
def test_compressed_values_arrive_whole(compression, shared_memory):
    with Shards(2) as shards:
        client = _ready(
            shards, wire_compression=compression, shared_memory=shared_memory
        )
        ids = _ids(2, range(1000), [])
        client.push(_push(ids))
        pulled = client.pull(ids)
    np.testing.assert_array_equal(pulled.rows[0][:, 2], ids[0].ids)


@pytest.mark.parametrize("shared_memory", [False, True])
def test_a_large_reply_arrives_whole(shared_memory):
    with Shards(2) as shards:
        client = _ready(shards, shared_memory=shared_memory)
        ids = _ids(2, range(2_500_000), [])
        client.push(_push(_ids(2, [2_499_999], [])))
        pulled = client.pull(ids)
    moved = np.flatnonzero(pulled.rows[0][:, 0])
    assert ids[0].ids[moved].tolist() == [2_499_999]


def test_shards_that_lack_a_batch_alone_get_it():
    with Shards(3) as shards:
        client = _ready(shards)
        ids = _ids(3, range(20), [])
        client.push(_push(ids), [1])
        client.push(_push(ids, batch=4), [0, 1, 2])
        assert client.progress(0, 0) == {4}
        statuses = [r.status for r in client.push(_push(ids))]
        assert client.progress(0, 0) == {0, 4}
        assert client.progress(1, 0) == frozenset()
    applied, duplicate = ps_pb2.PushReply.APPLIED, ps_pb2.PushReply.DUPLICATE
    assert statuses == [applied, duplicate, applied]


@pytest.mark.parametrize("shared_memory", [False, True])
def test_pushes_that_wait_for_others_are_not_written_over(shared_memory):
    count = 10_000
    options = StalenessOptions(grads_to_wait=3)
    with Shards(1, options) as shards:
        client = _ready(shards, shared_memory=shared_memory)
        for batch in range(3):
            first = batch * count
            ids = _ids(1, range(first, first + count), [])
            client.push(_push(ids, batch))
        ids = _ids(1, range(3 * count), [])
        pulled = client.pull(ids)
    np.testing.assert_array_equal(pulled.rows[0][:, 0], ids[0].ids)


def test_nonfinite_batches_are_refused_everywhere():
    with Shards(2) as shards:
        client = _ready(shards)
        push = _push(_ids(2, [1, 2, 3], []), nonfinite=True)
        statuses = {r.status for r in client.push(push)}
        pulled = client.pull(_ids(2, [1, 2, 3], []))
    assert statuses == {ps_pb2.PushReply.NONFINITE}
    assert not pulled.rows[0].any()


def test_only_shards_that_refused_take_part_in_the_recomputation():
    options = StalenessOptions(staleness_policy="recompute")
    with Shards(2, options) as shards:
        client = _ready(shards)
        for shard in shards.shards:
            shard.set_members(1, [1])
        ids = _ids(2, [1, 2, 3, 4], [])
        client.push(_push(ids), [0])
        # Shard 0 has moved on; shard 1 has not.
        statuses = [r.status for r in client.push(_push(ids, batch=1))]
        pulled = client.pull(
            ids, mode=ps_pb2.TRAIN, member=1, step=1, recompute=[0]
        )
        again = client.push(_push(ids, batch=1, versions=pulled.versions), [0])
    applied, refused = ps_pb2.PushReply.APPLIED, ps_pb2.PushReply.REFUSED
    assert statuses == [refused, applied]
    assert pulled.versions == (1, 1)
    assert [r.status for r in again] == [applied]


def test_a_learning_rate_reaches_every_shard():
    with Shards(2) as shards:
        client = _ready(shards)
        client.set_learning_rate(0, 0.25)
        rates = [s.report().learning_rate for s in shards.shards]
    assert rates == [0.25, 0.25]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"job_id": "another"}, "job_id"),
        ({"model": stand_ins.signature(dim=5)}, "model"),
    ],
)
def test_a_stranger_cannot_join(change, message):
    with Shards(2) as shards:
        _ready(shards)
        with pytest.raises(ConfigError, match=message):
            _client(shards, **change).join()


def test_shards_in_another_order_are_noticed():
    with Shards(2) as shards:
        shards.addresses.reverse()
        with pytest.raises(ConfigError, match="shard_index"):
            _client(shards).join()


def test_an_error_of_one_shard_is_raised_after_all_have_answered():
    with Shards(2) as shards:
        client = _ready(shards)
        push = _push(_ids(2, range(9), []), versions=(0, 99))
        with pytest.raises(RpcError, match="pull_version"):
            client.push(push)
        assert [s.report().batches for s in shards.shards] == [1, 0]


def test_calls_after_close_fail():
    with Shards(1) as shards:
        client = _ready(shards)
        client.close()
        with pytest.raises(RpcError):
            client.pull(_ids(1, [1], []))
