"""The master's calls to shards, over real sockets."""

import asyncio
import contextlib
import time

import pytest

from elastic_keras.config import JobConfig
from elastic_keras.master.shards import Shards
from elastic_keras.wire import rpc
from tests.wire.stand_ins import SHARD, ShardStandIn

_PATIENCE = 60.0


async def _until(holds):
    """Returns once a condition holds, fails if it never does."""
    end = time.monotonic() + _PATIENCE
    while not holds():
        assert time.monotonic() < end, "the condition never held"
        await asyncio.sleep(0.002)


class _Bench:
    """Shards at two addresses; a test starts those that it wants."""

    def __init__(self, folder):
        self._addresses = [f"unix:{folder}/{shard}.sock" for shard in range(2)]
        self._servers = []
        config = JobConfig.from_options(training_data="x")
        fields = {"job_id": "job", "ps_addresses": tuple(self._addresses)}
        self.shards = Shards(type(config)(**{**vars(config), **fields}), "")

    async def start(self, shard, **options):
        """Starts a shard and returns its stand-in."""
        servicer = ShardStandIn(**options)
        server = rpc.make_server(servicer, SHARD, self._addresses[shard])
        await server.start()
        self._servers.append(server)
        return servicer

    async def close(self):
        """Ends all of it."""
        await self.shards.close()
        for server in self._servers:
            await server.stop(0)


@pytest.fixture
def run(tmp_path_factory):
    """Runs `use(bench)` in a loop of its own."""

    async def main(use):
        bench = _Bench(tmp_path_factory.mktemp("s"))
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(bench.close)
            return await use(bench)

    return lambda use: asyncio.run(asyncio.wait_for(main(use), _PATIENCE))


def test_calls_wait_for_shards_that_come_late(run):
    async def use(bench):
        first = await bench.start(0, unavailable=3)
        flush = asyncio.create_task(bench.shards.flush())
        progress = asyncio.create_task(bench.shards.progress(0, 9))
        await _until(lambda: first.calls["GetProgress"] == 4)
        assert not flush.done()
        assert not progress.done()
        await bench.start(1)
        await flush
        assert await progress == [b"", b""]
        assert first.calls == {"Flush": 1, "GetProgress": 4}

    run(use)


def test_many_calls_at_once(run):
    async def use(bench):
        servicers = [await bench.start(shard) for shard in range(2)]
        waiting = [
            asyncio.create_task(bench.shards.status()) for _ in range(50)
        ]
        await _until(lambda: all(s.waiting == 50 for s in servicers))
        await bench.shards.flush()
        assert not any(task.done() for task in waiting)
        await bench.shards.finalize()
        for task in waiting:
            assert len(await task) == 2

    run(use)


def test_status_is_given_up_after_its_patience(run):
    async def use(bench):
        await bench.start(0)
        with pytest.raises(rpc.RpcError) as caught:
            await bench.shards.status(patience=0.2)
        assert caught.value.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")
        assert caught.value.method == "GetStatus"

    run(use)


def test_what_no_retry_mends_is_an_error(run):
    async def use(bench):
        await bench.start(0)
        # The stand-in answers it with a reply of the wrong kind.
        with pytest.raises(rpc.RpcError, match="SetMembers") as caught:
            await bench.shards.set_members(0, 1, [1])
        assert caught.value.code == "INTERNAL"

    run(use)


def test_a_cancelled_call_ends_its_handlers(run):
    async def use(bench):
        servicers = [await bench.start(shard) for shard in range(2)]
        call = asyncio.create_task(bench.shards.status())
        await _until(lambda: all(s.waiting for s in servicers))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await _until(lambda: all(s.ended["GetStatus"] for s in servicers))

    run(use)


def test_close_ends_calls_that_never_give_up(run):
    async def use(bench):
        servicer = await bench.start(0)
        calls = [
            asyncio.create_task(call)
            for call in (
                bench.shards.status(),
                bench.shards.set_members(1, 1, []),
            )
        ]
        await _until(lambda: servicer.waiting)
        await bench.shards.close()
        for call in calls:
            with pytest.raises(rpc.RpcError, match="CANCELLED"):
                await call
        with pytest.raises(rpc.RpcError, match="CANCELLED"):
            await bench.shards.flush()

    run(use)
