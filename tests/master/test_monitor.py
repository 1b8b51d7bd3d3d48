"""The master's look at the shards."""

import asyncio
import logging

import pytest

from elastic_keras.master.monitor import Monitor
from elastic_keras.master.side_tasks import wait_until
from elastic_keras.wire.errors import RpcError
from tests.master.benches import Bench
from tests.master.stand_in_shards import StandInShards


@pytest.mark.parametrize(
    ("before", "level"), [(False, logging.INFO), (True, logging.WARNING)]
)
def test_shards_that_are_not_there_yet_are_no_trouble(caplog, before, level):
    shards = StandInShards()
    bench = Bench(2, shards=shards)
    asked = []

    async def status(*, patience=None):
        asked.append(patience)
        bench.changes.notify()
        raise RpcError("DEADLINE_EXCEEDED", "late", "ps:1", "GetStatus")

    async def main():
        monitor = Monitor(
            dispatch=bench.dispatch,
            shards=shards,
            changes=bench.changes,
            max_nonfinite=1,
            tick_seconds=60.0,
            landing_seconds=0.0,
            silence_seconds=60.0,
        )
        if before:
            await monitor.refresh()
        shards.status = status
        monitor.start()
        await wait_until(bench.changes, lambda: asked)
        await monitor.close()

    caplog.set_level(logging.INFO)
    asyncio.run(main())
    (record,) = (r for r in caplog.records if "does not answer" in r.message)
    assert record.levelno == level
