"""Calls that are cancelled or whose client is closed."""

import threading
from concurrent.futures import CancelledError

import pytest

from elastic_keras.wire import rpc
from elastic_keras.wire.proto import ps_pb2
from tests.wire.stand_ins import EMPTY, PATIENCE, SHARD, ShardStandIn, until


def test_close_ends_calls(unix_address, serve, connect):
    servicer = ShardStandIn()
    serve(servicer, SHARD, unix_address)
    client = connect(unix_address, SHARD)
    futures = [
        client.call_future("GetStatus", EMPTY, large=large)
        for large in (False, True)
    ]
    until(lambda: servicer.waiting == 2)
    client.close()
    for future in futures:
        with pytest.raises(rpc.RpcError) as caught:
            future.result(PATIENCE)
        assert caught.value.code == "CANCELLED"
    for call in (
        lambda: client.call("Flush", EMPTY),
        lambda: client.call("Flush", EMPTY, large=True),
        lambda: client.call_future("Flush", EMPTY).result(PATIENCE),
        lambda: list(client.stream("Flush", EMPTY)),
    ):
        with pytest.raises(rpc.RpcError) as caught:
            call()
        assert caught.value.code == "CANCELLED"


def test_close_ends_a_call_between_its_attempts(unix_address, connect):
    client = connect(unix_address, SHARD)
    futures = [
        client.call_future("Flush", EMPTY, wait_for_ready=False, large=large)
        for large in (False, True)
    ]
    client.close()
    for future in futures:
        with pytest.raises(rpc.RpcError):
            future.result(PATIENCE)


def test_a_cancelled_call_ends_its_handler(unix_address, serve, connect):
    servicer = ShardStandIn()
    serve(servicer, SHARD, unix_address)
    client = connect(unix_address, SHARD)
    future = client.call_future("GetStatus", EMPTY)
    until(lambda: servicer.waiting == 1)
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.result(PATIENCE)
    until(lambda: servicer.ended["GetStatus"] == 1)
    assert client.call("Flush", EMPTY).version == 5
    assert servicer.waiting == 0


def test_a_cancelled_call_is_not_tried_again(unix_address, serve, connect):
    servicer = ShardStandIn(unavailable=1000)
    serve(servicer, SHARD, unix_address)
    client = connect(unix_address, SHARD)
    # pytest's time limit is one as well.
    others = _timers()
    future = client.call_future(
        "GetProgress", ps_pb2.ProgressRequest(), retry_for=None
    )
    until(lambda: servicer.calls["GetProgress"] >= 4)
    assert future.cancel()
    # A pause that had begun ends, and no other follows it.
    until(lambda: _timers() <= others)
    calls = servicer.calls["GetProgress"]
    assert client.call("Flush", EMPTY).version == 5
    assert _timers() <= others
    # One may have been under way.
    assert servicer.calls["GetProgress"] <= calls + 1


def _timers() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if isinstance(t, threading.Timer)}


def test_a_call_that_is_done_cannot_be_cancelled(unix_address, serve, connect):
    serve(ShardStandIn(), SHARD, unix_address)
    client = connect(unix_address, SHARD)
    future = client.call_future("Flush", EMPTY)
    assert future.result(PATIENCE).version == 5
    assert not future.cancel()
    assert future.result(PATIENCE).version == 5


def test_close_ends_retries_that_never_give_up(unix_address, serve, connect):
    servicer = ShardStandIn(unavailable=1000)
    serve(servicer, SHARD, unix_address)
    client = connect(unix_address, SHARD)
    request = ps_pb2.ProgressRequest()
    futures = [
        client.call_future("GetProgress", request, large=large, retry_for=None)
        for large in (False, True)
    ]
    until(lambda: servicer.calls["GetProgress"] >= 6)
    client.close()
    for future in futures:
        with pytest.raises(rpc.RpcError):
            future.result(PATIENCE)
