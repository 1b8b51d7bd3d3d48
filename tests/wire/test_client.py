"""Calls over real sockets, as threads make them."""

import logging

import pytest

from elastic_keras.wire import pieces, rpc
from elastic_keras.wire.proto import master_pb2, ps_pb2, tensor_pb2
from tests.wire.stand_ins import (
    EMPTY,
    MASTER,
    PATIENCE,
    SHARD,
    MasterStandIn,
    ShardStandIn,
    until,
)


def _rate(optimizer: int) -> ps_pb2.SetLearningRateRequest:
    return ps_pb2.SetLearningRateRequest(optimizer=optimizer)


def _large(size: int) -> tuple[ps_pb2.PushRequest, int, int]:
    data = bytes(range(251)) * (size // 251)
    request = ps_pb2.PushRequest(dense=tensor_pb2.Tensor(data=data))
    return request, len(data), sum(data[::997])


def test_call(address, serve, connect):
    serve(ShardStandIn(), SHARD, address)
    client = connect(address, SHARD)
    request = ps_pb2.ShardJoinRequest(
        job_id="job", protocol_version=rpc.PROTOCOL_VERSION
    )
    assert client.call("Join", request) == ps_pb2.ShardJoinReply(version=7)
    future = client.call_future("Join", request)
    assert future.result(PATIENCE) == ps_pb2.ShardJoinReply(version=7)


def test_a_server_that_comes_late_is_waited_for(address, serve, connect):
    client = connect(address, SHARD)
    small = client.call_future("Flush", EMPTY)
    large = client.call_future("Flush", EMPTY, large=True)
    with pytest.raises(rpc.RpcError) as caught:
        client.call("Flush", EMPTY, retry_for=0, wait_for_ready=False)
    assert caught.value.code == "UNAVAILABLE"
    assert not small.done()
    assert not large.done()
    serve(ShardStandIn(), SHARD, address)
    assert small.result(PATIENCE).version == 5
    assert large.result(PATIENCE).version == 5


def test_a_server_that_restarts_is_found_again(address, serve, connect):
    first = ShardStandIn()
    running = serve(first, SHARD, address)
    client = connect(address, SHARD)
    futures = [
        client.call_future("GetStatus", EMPTY, large=large)
        for large in (False, True)
    ]
    until(lambda: first.waiting == 2)
    running.stop()
    serve(ShardStandIn(), SHARD, address)
    client.call("Finalize", EMPTY)
    for future in futures:
        assert future.result(PATIENCE).version > 0


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("background", [False, True])
def test_unavailable_is_tried_again(
    unix_address, serve, connect, large, background
):
    servicer = ShardStandIn(unavailable=3)
    serve(servicer, SHARD, unix_address)
    client = connect(unix_address, SHARD)
    request = ps_pb2.ProgressRequest(task=9)
    if background:
        future = client.call_future("GetProgress", request, large=large)
        reply = future.result(PATIENCE)
    else:
        reply = client.call("GetProgress", request, large=large)
    assert reply.examples == 9
    assert servicer.calls["GetProgress"] == 4


@pytest.mark.parametrize("background", [False, True])
def test_one_attempt_only(unix_address, serve, connect, background):
    servicer = ShardStandIn(unavailable=1)
    serve(servicer, SHARD, unix_address)
    client = connect(unix_address, SHARD)
    request = ps_pb2.ProgressRequest()

    def call():
        if not background:
            return client.call("GetProgress", request, retry_for=0)
        future = client.call_future("GetProgress", request, retry_for=0)
        return future.result(PATIENCE)

    with pytest.raises(rpc.RpcError, match="not yet") as caught:
        call()
    assert caught.value.code == "UNAVAILABLE"
    assert servicer.calls["GetProgress"] == 1


@pytest.mark.parametrize("large", [False, True])
def test_a_deadline_ends_the_handler_too(unix_address, serve, connect, large):
    servicer = ShardStandIn()
    serve(servicer, SHARD, unix_address)
    client = connect(unix_address, SHARD)
    with pytest.raises(rpc.RpcError) as caught:
        client.call("GetStatus", EMPTY, timeout=0.1, retry_for=0, large=large)
    assert caught.value.code == "DEADLINE_EXCEEDED"
    until(lambda: servicer.ended["GetStatus"] == 1)


def test_a_deadline_is_tried_again(unix_address, serve, connect):
    servicer = ShardStandIn()
    serve(servicer, SHARD, unix_address)
    client = connect(unix_address, SHARD)
    future = client.call_future("GetStatus", EMPTY, timeout=0.1)
    until(lambda: servicer.ended["GetStatus"] >= 2)
    client.call("Finalize", EMPTY)
    assert future.result(PATIENCE).version == 0


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("optimizer", "code", "message"),
    [
        (1, "INVALID_ARGUMENT", "dense: too short. Received: 3 bytes"),
        (2, "FAILED_PRECONDITION", "join first"),
        (3, "INTERNAL", "KeyError: 'missing'"),
        (4, "INTERNAL", "RuntimeError: ä\n😀"),
        (5, "INTERNAL", "Received: code='NO_SUCH_CODE'"),
    ],
)
def test_exceptions_become_codes(
    unix_address, serve, connect, caplog, large, optimizer, code, message
):
    servicer = ShardStandIn()
    serve(servicer, SHARD, unix_address)
    client = connect(unix_address, SHARD)
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(rpc.RpcError, match=message) as caught,
    ):
        client.call("SetLearningRate", _rate(optimizer), large=large)
    error = caught.value
    assert error.code == code
    assert error.address == unix_address
    assert error.method == "SetLearningRate"
    assert unix_address in str(error)
    # Final: tried once. The traceback of what nobody foresaw is kept.
    assert servicer.calls["SetLearningRate"] == 1
    assert ("Traceback" in caplog.text) == (code == "INTERNAL")
    assert client.call("Flush", EMPTY).version == 5


@pytest.mark.parametrize("large", [False, True])
def test_an_error_in_the_background(unix_address, serve, connect, large):
    serve(ShardStandIn(), SHARD, unix_address)
    client = connect(unix_address, SHARD)
    future = client.call_future("SetLearningRate", _rate(1), large=large)
    with pytest.raises(rpc.RpcError, match="dense: too short"):
        future.result(PATIENCE)


def test_a_reply_of_the_wrong_kind_is_an_internal_error(
    unix_address, serve, connect
):
    serve(ShardStandIn(), SHARD, unix_address)
    client = connect(unix_address, SHARD)
    request = ps_pb2.SetMembersRequest(number=1)
    with pytest.raises(rpc.RpcError, match=r"SetMembers .*INTERNAL"):
        client.call("SetMembers", request)


@pytest.mark.parametrize("token", ["", "wrong", "tokem"])
@pytest.mark.parametrize("large", [False, True])
def test_a_wrong_token_is_refused(unix_address, serve, connect, token, large):
    servicer = ShardStandIn()
    serve(servicer, SHARD, unix_address, token="token")
    with pytest.raises(rpc.RpcError) as caught:
        connect(unix_address, SHARD, token=token).call(
            "Flush", EMPTY, large=large
        )
    assert caught.value.code == "UNAUTHENTICATED"
    assert servicer.calls["Flush"] == 0
    client = connect(unix_address, SHARD, token="token")
    assert client.call("Flush", EMPTY, large=large).version == 5


def test_the_token_is_checked_before_a_stream(unix_address, serve, connect):
    servicer = MasterStandIn()
    serve(servicer, MASTER, unix_address, token="token")
    with pytest.raises(rpc.RpcError) as caught:
        list(connect(unix_address, MASTER).stream("WatchJob", EMPTY))
    assert caught.value.code == "UNAUTHENTICATED"
    assert servicer.openings == 0


def test_large_messages_both_ways(address, serve, connect):
    serve(ShardStandIn(), SHARD, address)
    client = connect(address, SHARD)
    request, size, total = _large(pieces.LARGE_BYTES + 12345)
    reply = client.call("Push", request)
    assert (reply.version, reply.staleness) == (size, total)
    reply = client.call_future("Push", request).result(PATIENCE)
    assert (reply.version, reply.staleness) == (size, total)
    step = 3 * pieces.PIECE_BYTES + 256
    reply = client.call("Pull", ps_pb2.PullRequest(step=step), large=True)
    assert reply.dense.data == bytes(range(256)) * (step // 256)


@pytest.mark.parametrize("large", [False, True])
def test_a_request_beyond_the_clients_bound(
    unix_address, serve, connect, large
):
    serve(ShardStandIn(), SHARD, unix_address)
    client = connect(unix_address, SHARD, max_message_bytes=100_000)
    request, _, _ = _large(200_000)
    for call in (
        lambda: client.call("Push", request, large=large),
        lambda: client.call_future("Push", request, large=large).result(),
    ):
        with pytest.raises(rpc.RpcError, match="at most 100000") as caught:
            call()
        assert caught.value.code == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize(
    ("large", "code"),
    [(False, "RESOURCE_EXHAUSTED"), (True, "INVALID_ARGUMENT")],
)
def test_a_request_beyond_the_servers_bound(
    unix_address, serve, connect, large, code
):
    serve(ShardStandIn(), SHARD, unix_address, max_message_bytes=3 << 20)
    client = connect(unix_address, SHARD)
    request, _, _ = _large(5 << 20)
    with pytest.raises(rpc.RpcError) as caught:
        client.call("Push", request, large=large)
    assert caught.value.code == code
    assert client.call("Flush", EMPTY).version == 5


def test_a_reply_beyond_the_clients_bound(unix_address, serve, connect):
    serve(ShardStandIn(), SHARD, unix_address)
    client = connect(unix_address, SHARD, max_message_bytes=3 << 20)
    request = ps_pb2.PullRequest(step=5 << 20)
    for large, code in ((False, "RESOURCE_EXHAUSTED"), (True, "DATA_LOSS")):
        with pytest.raises(rpc.RpcError) as caught:
            client.call("Pull", request, large=large)
        assert caught.value.code == code


@pytest.mark.parametrize("large", [False, True])
def test_many_waiting_calls_hold_nobody_back(
    unix_address, serve, connect, large
):
    servicer = ShardStandIn()
    serve(servicer, SHARD, unix_address)
    client = connect(unix_address, SHARD)
    waiting = [
        client.call_future("GetStatus", EMPTY, large=large) for _ in range(100)
    ]
    until(lambda: servicer.waiting == 100)
    request, size, _ = _large(300_000)
    assert client.call("Push", request, large=large).version == size
    assert not any(future.done() for future in waiting)
    client.call("Finalize", EMPTY)
    for future in waiting:
        # The handler saw the client's deadline of 60 s.
        assert 0 < future.result(PATIENCE).version <= 60


def test_a_request_of_another_method(unix_address, connect):
    client = connect(unix_address, SHARD)
    with pytest.raises(TypeError, match="Flush takes a Empty"):
        client.call("Flush", ps_pb2.PushRequest())


def test_stream(address, serve, connect):
    serve(MasterStandIn(), MASTER, address)
    client = connect(address, MASTER)
    replies = list(client.stream("WatchJob", EMPTY))
    assert replies == [master_pb2.JobStatus(steps=i) for i in range(3)]


def test_a_broken_stream_is_opened_again(unix_address, serve, connect):
    servicer = MasterStandIn(breaks=2)
    serve(servicer, MASTER, unix_address)
    client = connect(unix_address, MASTER)
    steps = [reply.steps for reply in client.stream("WatchJob", EMPTY)]
    assert steps == [0, 1, 0, 1, 0, 1, 2]


def test_a_stream_opened_once_breaks(unix_address, serve, connect):
    serve(MasterStandIn(breaks=1), MASTER, unix_address)
    client = connect(unix_address, MASTER)
    steps = []
    stream = client.stream("WatchJob", EMPTY, retry_for=0)
    with pytest.raises(rpc.RpcError, match="broken"):
        steps.extend(reply.steps for reply in stream)
    assert steps == [0, 1]
