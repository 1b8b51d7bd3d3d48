"""A job's metrics over HTTP."""

import asyncio
import socket
import urllib.request

import pytest

from elastic_keras.config import ConfigError
from elastic_keras.master import metrics
from tests.master.stand_in_shards import StandInShards
from tests.master.stand_ins import make_job


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _read(port):
    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url) as reply:
        return reply.headers["Content-Type"], reply.read().decode()


def test_they_are_there_while_the_context_lasts(tmp_path):
    async def main():
        job = make_job(tmp_path, StandInShards(), num_workers=2)
        port = _free_port()
        with metrics.served(job, port):
            kind, text = await asyncio.to_thread(_read, port)
        with pytest.raises(OSError, match="refused"):
            await asyncio.to_thread(_read, port)
        return kind, text

    kind, text = asyncio.run(main())
    assert kind == "text/plain; version=0.0.4; charset=utf-8"
    assert 'elastic_keras_phase{phase="starting"} 1.0\n' in text
    assert 'elastic_keras_worker_up{worker="1"} 0.0\n' in text


def test_a_taken_port_and_none(tmp_path):
    async def main():
        job = make_job(tmp_path, StandInShards())
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with (
                pytest.raises(ConfigError, match=f"metrics_port={port}"),
                metrics.served(job, port),
            ):
                pass
        with metrics.served(job, 0):
            pass

    asyncio.run(main())
