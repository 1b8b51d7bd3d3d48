"""Calls over real sockets, as the master makes them."""

import asyncio

import pytest

from elastic_keras.wire import pieces, rpc
from elastic_keras.wire.proto import ps_pb2, tensor_pb2
from tests.wire.stand_ins import MASTER, SHARD, MasterStandIn, ShardStandIn

EMPTY = tensor_pb2.Empty()


def _with_client(address, service, use, **options):
    """Runs `use(client)` in a loop of its own."""

    async def run():
        client = rpc.AioClient(address, service, **options)
        try:
            return await use(client)
        finally:
            await client.close()

    return asyncio.run(asyncio.wait_for(run(), 60))


def test_small_and_large_calls(address, serve):
    serve(ShardStandIn(), SHARD, address, token="token")

    async def use(client):
        assert (await client.call("Flush", EMPTY)).version == 5
        data = bytes(pieces.LARGE_BYTES + 3)
        request = ps_pb2.PushRequest(dense=tensor_pb2.Tensor(data=data))
        assert (await client.call("Push", request)).version == len(data)
        request = ps_pb2.PullRequest(step=5 << 20)
        reply = await client.call("Pull", request, large=True)
        assert len(reply.dense.data) == 5 << 20

    _with_client(address, SHARD, use, token="token")


@pytest.mark.parametrize("large", [False, True])
def test_unavailable_is_tried_again(unix_address, serve, large):
    servicer = ShardStandIn(unavailable=3)
    serve(servicer, SHARD, unix_address)

    async def use(client):
        request = ps_pb2.ProgressRequest(task=9)
        return await client.call("GetProgress", request, large=large)

    assert _with_client(unix_address, SHARD, use).examples == 9
    assert servicer.calls["GetProgress"] == 4


def test_a_server_that_comes_late_is_waited_for(unix_address, serve):
    async def use(client):
        call = asyncio.create_task(client.call("Flush", EMPTY))
        with pytest.raises(rpc.RpcError, match="UNAVAILABLE"):
            await client.call("Flush", EMPTY, retry_for=0, wait_for_ready=False)
        assert not call.done()
        serve(ShardStandIn(), SHARD, unix_address)
        assert (await call).version == 5

    _with_client(unix_address, SHARD, use)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize(
    ("optimizer", "code"),
    [
        (1, "INVALID_ARGUMENT"),
        (2, "FAILED_PRECONDITION"),
        (3, "INTERNAL"),
    ],
)
def test_exceptions_become_codes(unix_address, serve, large, optimizer, code):
    servicer = ShardStandIn()
    serve(servicer, SHARD, unix_address)

    async def use(client):
        request = ps_pb2.SetLearningRateRequest(optimizer=optimizer)
        with pytest.raises(rpc.RpcError) as caught:
            await client.call("SetLearningRate", request, large=large)
        return caught.value

    assert _with_client(unix_address, SHARD, use).code == code
    assert servicer.calls["SetLearningRate"] == 1


def test_a_cancelled_call_ends_its_handler(unix_address, serve):
    servicer = ShardStandIn()
    serve(servicer, SHARD, unix_address)

    async def use(client):
        for large in (False, True):
            call = asyncio.create_task(
                client.call("GetStatus", EMPTY, large=large)
            )
            while servicer.waiting == 0:
                await asyncio.sleep(0.002)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            while servicer.waiting:
                await asyncio.sleep(0.002)

    _with_client(unix_address, SHARD, use)
    assert servicer.ended["GetStatus"] == 2


def test_a_broken_stream_is_opened_again(unix_address, serve):
    serve(MasterStandIn(breaks=2), MASTER, unix_address)

    async def use(client):
        return [r.steps async for r in client.stream("WatchJob", EMPTY)]

    steps = _with_client(unix_address, MASTER, use)
    assert steps == [0, 1, 0, 1, 0, 1, 2]


def test_calls_after_close(unix_address, serve):
    serve(ShardStandIn(), SHARD, unix_address)

    async def use(client):
        await client.close()
        with pytest.raises(rpc.RpcError, match="CANCELLED"):
            await client.call("Flush", EMPTY)
        with pytest.raises(rpc.RpcError, match="CANCELLED"):
            async for _ in client.stream("Flush", EMPTY):
                pass

    _with_client(unix_address, SHARD, use)


def test_bounds_and_types(unix_address, serve):
    serve(ShardStandIn(), SHARD, unix_address)

    async def use(client):
        with pytest.raises(TypeError, match="Flush takes a Empty"):
            await client.call("Flush", ps_pb2.PushRequest())
        request = ps_pb2.PullRequest(step=5 << 20)
        with pytest.raises(rpc.RpcError, match="DATA_LOSS"):
            await client.call("Pull", request, large=True)

    _with_client(unix_address, SHARD, use, max_message_bytes=3 << 20)
