"""A shard behind real gRPC, in this process, on a Unix socket."""

import dataclasses
import json

import numpy as np
import pytest

from elastic_keras.signature import DenseSpec, ModelSignature, OptimizerSpec
from elastic_keras.snapshots.manifest import ShardEntry
from elastic_keras.wire import rpc, tensors
from elastic_keras.wire.proto import ps_pb2, tensor_pb2
from tests.ps.served import (
    MODEL,
    error_of,
    join_request,
    pull_request,
    push_request,
    read,
)


def test_a_step_over_the_wire(serve):
    server = serve().prepare()
    pulled = server.call("Pull", pull_request())
    assert pulled.version == 0
    np.testing.assert_array_equal(read(pulled.rows[0]), np.ones((2, 2)))
    assert read(pulled.rows[1]).shape == (2, 3)
    pushed = server.call("Push", push_request())
    assert pushed.status == ps_pb2.PushReply.APPLIED
    assert (pushed.version, pushed.staleness) == (1, 0)
    again = server.call("Push", push_request())
    assert again.status == ps_pb2.PushReply.DUPLICATE
    pulled = server.call("Pull", pull_request(mode=ps_pb2.READ))
    np.testing.assert_array_equal(
        read(pulled.rows[0]), [[0.5, 0.5], [1.0, 1.0]]
    )
    np.testing.assert_array_equal(read(pulled.dense), np.full(4, -0.5))
    np.testing.assert_array_equal(read(pulled.states), np.ones(3))
    assert (pulled.version, pulled.iterations) == (1, 1)
    newest = pull_request(mode=ps_pb2.READ)
    newest.dense_version = pulled.dense_version
    pulled = server.call("Pull", newest)
    assert not pulled.HasField("dense")
    assert not pulled.HasField("states")
    status = server.status()
    assert (status.version, status.rows, status.batches) == (1, 1, 1)
    assert [t.name for t in status.tables] == ["users", "items"]
    assert status.examples_by_epoch == {0: 8}
    assert status.staleness_counts[0] == 1
    assert status.duplicate_pushes == 1
    assert status.learning_rate == 0.5
    assert status.signature_sha256 == MODEL.sha256()


@pytest.mark.parametrize("wire_dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("compression", ["none", "lz4", "snappy", "zstd"])
def test_rows_travel_as_asked(serve, wire_dtype, compression):
    server = serve().prepare()
    encoding = {"wire_dtype": wire_dtype, "compression": compression}
    server.call("Push", push_request(value=0.5, **encoding))
    pulled = server.call(
        "Pull",
        pull_request(
            mode=ps_pb2.READ,
            wire_dtype=tensor_pb2.DType.Value(wire_dtype.upper()),
            compression=tensor_pb2.Compression.Value(compression.upper()),
        ),
    )
    kind = tensor_pb2.DType.Value(wire_dtype.upper())
    assert pulled.rows[1].dtype == pulled.dense.dtype == kind
    assert pulled.rows[0].compression == pulled.dense.compression
    assert pulled.rows[0].compression == tensor_pb2.Compression.Value(
        compression.upper()
    )
    assert pulled.states.dtype == tensor_pb2.FLOAT32
    np.testing.assert_array_equal(
        read(pulled.rows[0]), [[0.75, 0.75], [1.0, 1.0]]
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"job_id": "other"}, "job_id: .*Received: job_id='other'"),
        ({"protocol_version": 99}, "protocol_version: "),
        ({"num_shards": 2}, "num_shards: this is shard 0 of 1"),
        ({"shard_index": 1}, "shard_index: this is shard 0 of 1"),
    ],
)
def test_who_does_not_belong_here_is_told(serve, fields, message):
    error = error_of(serve(), "Join", join_request(**fields))
    assert error.code == "FAILED_PRECONDITION"
    with pytest.raises(rpc.RpcError, match=message):
        raise error


def test_a_different_model_is_told_the_difference(serve):
    server = serve().prepare().meet(1)
    other = dataclasses.replace(MODEL, dense=(DenseSpec("kernel", (2, 5)),))
    error = error_of(server, "Join", join_request(other))
    assert error.code == "FAILED_PRECONDITION"
    assert "dense[0] (kernel).shape[1] is 2. Received: 5" in error.message
    assert server.call("Join", join_request()).dense_initialized


def test_a_model_that_cannot_run_is_told_why(serve):
    server = serve()
    broken = join_request(signature=json.dumps({"seed": 1}))
    assert error_of(server, "Join", broken).code == "INVALID_ARGUMENT"
    lamb = dataclasses.replace(MODEL, optimizers=(OptimizerSpec("lamb", 1.0),))
    error = error_of(server, "Join", join_request(lamb))
    assert error.code == "INVALID_ARGUMENT"
    assert "lamb" in error.message
    assert not server.call("Join", join_request()).dense_initialized


def test_a_caller_whose_memory_cannot_be_opened_may_join(serve):
    request = join_request()
    request.region.pid, request.region.fd = 1 << 30, 3
    assert not serve().call("Join", request).shares_memory


def test_the_master_joins_without_a_model(serve):
    reply = serve().call("Join", join_request(None))
    assert not reply.dense_initialized


def test_the_master_may_ask_before_any_worker_joins(serve):
    server = serve(grads_to_wait=2)
    server.set_members(1, 4)
    flushed = server.call("Flush", tensor_pb2.Empty())
    assert (flushed.version, flushed.iterations) == (0, 0)
    server.call("Finalize", tensor_pb2.Empty())
    status = server.status()
    assert (status.members_number, status.signature_sha256) == (1, "")
    progress = server.call("GetProgress", ps_pb2.ProgressRequest(task=1))
    assert progress.batches == b""


def test_the_status_tells_of_averages(serve):
    server = serve()
    assert not server.status().uses_ema
    ema = dataclasses.replace(MODEL.optimizers[0], use_ema=True)
    model = dataclasses.replace(MODEL, optimizers=(ema,))
    server.call("Join", join_request(model))
    assert server.status().uses_ema


def _damaged_rows(request):
    request.tables[0].gradients.crc32c ^= 1


def _short_rows(request):
    request.tables[0].gradients.shape[0] = 2


def _unknown_table(request):
    request.tables[0].table = 7


def _no_dense(request):
    request.ClearField("dense")


def _float_ids(request):
    request.tables[0].ids.CopyFrom(tensors.encode(np.zeros(1, np.float32)))


def _negative_step(request):
    request.step = -1


def _future_version(request):
    request.pull_version = 12


def _unknown_region(request):
    request.region.pid, request.region.fd = 1 << 30, 3


def _bytes_in_no_region(request):
    tensor = request.tables[0].gradients
    tensor.region_bytes = len(tensor.data)
    tensor.ClearField("data")


@pytest.mark.parametrize(
    ("damage", "field"),
    [
        (_damaged_rows, "tables[0].gradients"),
        (_short_rows, "tables[0].gradients"),
        (_unknown_table, "table: "),
        (_no_dense, "dense: "),
        (_float_ids, "tables[0].ids"),
        (_negative_step, "step: "),
        (_future_version, "pull_version: "),
        (_unknown_region, "region: "),
        (_bytes_in_no_region, "tables[0].gradients"),
    ],
)
def test_a_bad_push_is_refused_and_changes_nothing(serve, damage, field):
    server = serve().prepare()
    server.call("Push", push_request())
    look = pull_request(mode=ps_pb2.READ)
    before = server.call("Pull", look), server.status()
    request = push_request(1)
    damage(request)
    error = error_of(server, "Push", request)
    assert error.code == "INVALID_ARGUMENT"
    assert field in error.message
    # A look counts: the status first.
    after = server.status()
    assert (server.call("Pull", look), after) == before


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("Pull", pull_request(mode=7), "mode: "),
        ("Pull", pull_request(member=-4), "member: "),
        ("Pull", pull_request(mode=ps_pb2.READ, wire_dtype=5), "wire_dtype"),
        ("Pull", pull_request(mode=ps_pb2.READ, compression=9), "compression"),
        (
            "SetLearningRate",
            ps_pb2.SetLearningRateRequest(learning_rate=float("nan")),
            "learning_rate: ",
        ),
        (
            "SetMembers",
            ps_pb2.SetMembersRequest(number=9, members=[1, 1]),
            "members: ",
        ),
        (
            "Pull",
            pull_request(
                mode=ps_pb2.READ, region=tensor_pb2.Region(pid=-1, fd=2)
            ),
            "region: ",
        ),
        ("GetProgress", ps_pb2.ProgressRequest(task=-1), "key.task: "),
        ("InitDense", ps_pb2.InitDenseRequest(), "dense: "),
    ],
)
def test_other_bad_requests_name_the_field(serve, method, request_, field):
    server = serve().prepare()
    before = server.status()
    error = error_of(server, method, request_)
    assert error.code == "INVALID_ARGUMENT"
    assert field in error.message
    assert server.status() == before


def test_values_are_asked_for_too_early(serve):
    server = serve()
    error = error_of(server, "Pull", pull_request(mode=ps_pb2.READ))
    assert error.code == "FAILED_PRECONDITION"
    assert "join first" in error.message


def test_flush_and_progress(serve):
    server = serve(grads_to_wait=3).prepare()
    server.call("Push", push_request(0))
    server.call("Push", push_request(1))
    assert server.status().version == 0
    flushed = server.call("Flush", tensor_pb2.Empty())
    assert (flushed.version, flushed.iterations) == (2, 1)
    progress = server.call("GetProgress", ps_pb2.ProgressRequest(task=1))
    assert (progress.batches, progress.examples) == (b"\x03", 16)
    server.call("Finalize", tensor_pb2.Empty())


def test_a_snapshot_over_the_wire(serve):
    server = serve().prepare()
    server.call("Push", push_request())
    folder = server.snapshots / ".new"
    folder.mkdir()
    request = ps_pb2.SnapshotRequest(folder=folder.name)
    reply = server.call("Snapshot", request)
    assert ModelSignature.from_json(reply.signature) == MODEL
    entry = ShardEntry.from_json(reply.shard)
    assert (entry.version, entry.iterations) == (1, 1)
    assert [table.rows for table in entry.tables] == [1, 0]
    assert {each.name for each in folder.iterdir()} == {
        each.name for each in entry.files
    }
    # A file that is there already is not overwritten.
    error = error_of(server, "Snapshot", request)
    assert error.code == "FAILED_PRECONDITION"
    assert "cannot be written: File exists" in error.message


@pytest.mark.parametrize("folder", ["", "..", "a/b", "/tmp", "a/.."])
def test_a_snapshot_goes_nowhere_else(serve, folder):
    server = serve().prepare()
    request = ps_pb2.SnapshotRequest(folder=folder)
    error = error_of(server, "Snapshot", request)
    assert error.code == "INVALID_ARGUMENT"
    assert "folder: a name in JOB_DIR/snapshots" in error.message


def test_a_learning_rate_over_the_wire(serve):
    server = serve().prepare()
    server.call(
        "SetLearningRate", ps_pb2.SetLearningRateRequest(learning_rate=2.0)
    )
    server.call("Push", push_request())
    pulled = server.call("Pull", pull_request(mode=ps_pb2.READ))
    np.testing.assert_array_equal(read(pulled.dense), np.full(4, -2.0))


def test_a_worker_says_that_its_gradients_are_not_finite(serve):
    server = serve().prepare()
    request = ps_pb2.PushRequest(
        key=ps_pb2.BatchKey(task=1), examples=8, member=1, nonfinite=True
    )
    for _ in range(2):
        reply = server.call("Push", request)
        assert reply.status == ps_pb2.PushReply.NONFINITE
    status = server.status()
    assert (status.nonfinite_pushes, status.nonfinite_examples) == (1, 8)


@pytest.mark.parametrize("count", [10, 1_000, 1_200_000])
def test_messages_of_any_size(serve, count):
    # Done in the event loop, in a thread, and in pieces.
    server = serve().prepare()
    request = push_request()
    ids = tensors.encode(np.arange(count))
    del request.tables[:]
    request.tables.add(
        table=0,
        ids=ids,
        gradients=tensors.encode(np.ones((count, 2), np.float32)),
    )
    assert server.call("Push", request).status == ps_pb2.PushReply.APPLIED
    look = ps_pb2.PullRequest(mode=ps_pb2.READ, dense_version=-1)
    look.tables.add(table=0, ids=ids)
    rows = read(server.call("Pull", look, large=True).rows[0])
    np.testing.assert_array_equal(rows, np.full((count, 2), 0.5))
    assert server.status().rows == count


def test_half_an_update_is_told(serve, monkeypatch):
    server = serve().prepare()

    def broken(*args, **kwargs):
        raise MemoryError("no room")

    server.call("Push", push_request(0))
    assert not server.failed.is_set()
    monkeypatch.setattr(server.shard._parameters.dense, "apply", broken)
    error = error_of(server, "Push", push_request(1))
    assert (error.code, error.message) == ("INTERNAL", "MemoryError: no room")
    assert server.failed.is_set()
