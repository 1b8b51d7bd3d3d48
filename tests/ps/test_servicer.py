"""A shard behind real gRPC, in this process, on a Unix socket."""

import asyncio
import contextlib
import dataclasses
import json
import tempfile
import threading
import time

import numpy as np
import pytest

from elastic_keras.config import StalenessOptions
from elastic_keras.ps import checks, warm_up
from elastic_keras.ps.servicer import ShardServicer
from elastic_keras.ps.shard import Shard
from elastic_keras.signature import (
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    StateSpec,
    TableSpec,
)
from elastic_keras.wire import rpc, tensors
from elastic_keras.wire.proto import ps_pb2, tensor_pb2

SERVICE = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]
THREADS = 2
MODEL = ModelSignature(
    seed=3,
    optimizers=(OptimizerSpec("sgd", 0.5),),
    dense=(DenseSpec("kernel", (2, 2)),),
    states=(StateSpec("mean", (3,)),),
    tables=(
        TableSpec("users", 2, InitializerSpec("constant", 1.0)),
        TableSpec("items", 3, InitializerSpec("uniform", -1.0, 1.0)),
    ),
)


class Server:
    """A served shard and a client to it."""

    def __init__(self, folder: str, options: StalenessOptions) -> None:
        self.shard = Shard(0, 1, options)
        self.address = f"unix:{folder}/ps-0.sock"
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()
        self.servicer: ShardServicer
        self._run(self._start())
        self.client = rpc.Client(self.address, SERVICE, timeout=30.0)

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def _start(self) -> None:
        self.failed = threading.Event()
        self.servicer = ShardServicer(
            self.shard,
            job_id="j",
            on_failure=self.failed.set,
            threads=THREADS,
        )
        self._server = rpc.make_server(self.servicer, SERVICE, self.address)
        await self._server.start()

    def stop_waiting(self) -> None:
        async def stop() -> None:
            self.servicer.stop_waiting()

        self._run(stop())

    def close(self) -> None:
        self.client.close()
        self.stop_waiting()
        self._run(self._server.stop(5))
        self.servicer.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def call(self, method, request, **options):
        options.setdefault("retry_for", 0)
        return self.client.call(method, request, **options)

    def status(self) -> ps_pb2.ShardStatus:
        return self.call("GetStatus", tensor_pb2.Empty())

    def wait_for(self, condition) -> None:
        """Asks for the status until it is as wanted."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if condition(self.status()):
                return
        waiting = self.status().waiting_pulls
        raise AssertionError(f"It never came about: {waiting} pulls wait")

    def prepare(self) -> "Server":
        self.call("Join", join_request())
        self.call(
            "InitDense",
            ps_pb2.InitDenseRequest(
                dense=tensors.encode(np.zeros(4, np.float32)),
                states=tensors.encode(np.zeros(3, np.float32)),
            ),
        )
        self.set_members(1, 1, 2)
        return self

    def meet(self, *members: int) -> "Server":
        """Lets members pull for their first step, so that others wait."""
        for member in members:
            self.call("Pull", pull_request(0, member=member))
        return self

    def set_members(self, number: int, *members: int) -> None:
        self.call(
            "SetMembers",
            ps_pb2.SetMembersRequest(number=number, members=members),
        )


@pytest.fixture(scope="module")
def kernels():
    """Compiled before a deadline counts, as in a shard's process."""
    warm_up.warm_up()
    checks.warm_up()


@pytest.fixture
def serve(kernels):
    with contextlib.ExitStack() as stack:

        def start(**options) -> Server:
            # Short: a Unix socket's path has at most 107 characters.
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            server = Server(folder, StalenessOptions(**options))
            stack.callback(server.close)
            return server

        yield start


def join_request(model: ModelSignature | None = MODEL, **fields):
    request = ps_pb2.ShardJoinRequest(
        job_id="j",
        protocol_version=rpc.PROTOCOL_VERSION,
        signature="" if model is None else model.to_json(),
        num_shards=1,
        shard_index=0,
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def pull_request(step=0, member=1, mode=ps_pb2.TRAIN, ids=(5, 6), **fields):
    request = ps_pb2.PullRequest(
        mode=mode, member=member, step=step, dense_version=-1, **fields
    )
    for table in (0, 1):
        request.tables.add(
            table=table, ids=tensors.encode(np.array(ids, np.int64))
        )
    return request


def push_request(batch=0, member=1, version=0, value=1.0, **encoding):
    request = ps_pb2.PushRequest(
        key=ps_pb2.BatchKey(epoch=0, task=member, batch=batch),
        examples=8,
        member=member,
        step=batch,
        pull_version=version,
        dense=tensors.encode(np.full(4, value, np.float32), **encoding),
        state_deltas=tensors.encode(np.full(3, value, np.float32)),
    )
    request.tables.add(
        table=0,
        ids=tensors.encode(np.array([5], np.int64)),
        gradients=tensors.encode(
            np.full((1, 2), value, np.float32), **encoding
        ),
    )
    return request


def read(tensor: tensor_pb2.Tensor) -> np.ndarray:
    return tensors.decode(tensor, name="reply", dtype=np.float32)


def error_of(server: Server, method: str, request) -> rpc.RpcError:
    with pytest.raises(rpc.RpcError) as caught:
        server.call(method, request)
    return caught.value


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
    assert (server.call("Pull", look), server.status()) == before


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


def test_more_waiting_pulls_than_threads_do_not_block_a_push(serve):
    server = serve(max_staleness=0).prepare()
    server.call("Pull", pull_request(0))
    waiting = [
        server.client.call_future("Pull", pull_request(1), retry_for=0)
        for _ in range(8 * THREADS)
    ]
    server.wait_for(lambda s: s.waiting_pulls == len(waiting))
    server.call("Push", push_request(0, member=1))
    assert not any(call.done() for call in waiting)
    server.call("Push", push_request(0, member=2))
    replies = [call.result(timeout=30) for call in waiting]
    # Granted by the last push, so that they read what it did.
    assert {reply.version for reply in replies} == {2}
    assert server.status().waiting_pulls == 0


def test_a_member_that_leaves_frees_the_waiting(serve):
    server = serve(max_staleness=0).prepare().meet(1, 2)
    server.call("Push", push_request(0, member=1))
    held = server.client.call_future("Pull", pull_request(1), retry_for=0)
    gone = server.client.call_future(
        "Pull", pull_request(1, member=2), retry_for=0
    )
    server.wait_for(lambda s: s.waiting_pulls == 2)
    server.set_members(2, 1)
    assert held.result(timeout=30).version == 1
    with pytest.raises(rpc.RpcError, match=r"ABORTED.*taken this member off"):
        gone.result(timeout=30)


def test_a_pull_of_an_unknown_member_waits_for_the_list(serve):
    server = serve().prepare()
    call = server.client.call_future(
        "Pull", pull_request(member=9), retry_for=0
    )
    server.wait_for(lambda s: s.waiting_pulls == 1)
    server.set_members(2, 1, 2, 9)
    assert call.result(timeout=30).version == 0


def test_a_deadline_drops_the_waiting_pull(serve):
    server = serve().prepare().meet(1)
    with pytest.raises(rpc.RpcError, match="DEADLINE_EXCEEDED"):
        server.call("Pull", pull_request(5), timeout=0.2)
    server.wait_for(lambda s: s.waiting_pulls == 0)


def test_a_client_that_goes_drops_its_waiting_pull(serve):
    server = serve().prepare().meet(1)
    other = rpc.Client(server.address, SERVICE)
    call = other.call_future("Pull", pull_request(5), retry_for=0)
    server.wait_for(lambda s: s.waiting_pulls == 1)
    other.close()
    server.wait_for(lambda s: s.waiting_pulls == 0)
    assert call.exception(timeout=30) is not None


def test_a_stopping_shard_sends_waiting_pulls_away(serve):
    server = serve().prepare().meet(1)
    call = server.client.call_future("Pull", pull_request(5), retry_for=0)
    server.wait_for(lambda s: s.waiting_pulls == 1)
    server.stop_waiting()
    with pytest.raises(rpc.RpcError, match="UNAVAILABLE: the shard is stop"):
        call.result(timeout=30)


def test_recompute_over_the_wire(serve):
    server = serve(staleness_policy="recompute", max_staleness=0).prepare()
    for batch in range(3):
        server.call("Push", push_request(batch, member=2, version=batch))
        refused = server.call("Push", push_request(0, version=batch))
        assert refused.status == ps_pb2.PushReply.REFUSED
        assert refused.staleness == 1
    # Reserved: member 2 waits before its next step.
    waiting = server.client.call_future(
        "Pull", pull_request(3, member=2), retry_for=0
    )
    server.wait_for(lambda s: s.waiting_pulls == 1)
    pulled = server.call("Pull", pull_request(0, recompute=True))
    applied = server.call("Push", push_request(0, version=pulled.version))
    assert applied.status == ps_pb2.PushReply.APPLIED
    assert waiting.result(timeout=30).version == 4
    status = server.status()
    assert (status.refused_pushes, status.staleness_max) == (3, 0)


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
