"""A server in a thread of its own, over real sockets."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from elastic_keras.wire import rpc


class RunningServer:
    """One server and the event loop that serves it."""

    def __init__(self, servicer, service, address, **options) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, daemon=True
        )
        self._thread.start()
        self._server: Any = None
        try:
            self.run(self._start(servicer, service, address, options))
        except BaseException:
            self._end_loop()
            raise

    def run(self, coroutine) -> Any:
        """Runs a coroutine in the server's loop and returns its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def stop(self) -> None:
        """Stops at once, as a process that ends."""
        if self._server is not None:
            server, self._server = self._server, None
            self.run(server.stop(0))
            self.run(self._cancel_the_rest())
            self._end_loop()

    async def _start(self, servicer, service, address, options) -> None:
        self._server = rpc.make_server(servicer, service, address, **options)
        await self._server.start()

    async def _cancel_the_rest(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def serve() -> Iterator[Callable[..., RunningServer]]:
    """Starts servers that the test's end stops."""
    servers = []

    def start(servicer, service, address, **options) -> RunningServer:
        servers.append(RunningServer(servicer, service, address, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def connect() -> Iterator[Callable[..., rpc.Client]]:
    """Makes clients that the test's end closes."""
    clients = []

    def make(address, service, **options) -> rpc.Client:
        clients.append(rpc.Client(address, service, **options))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def _tcp_address() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture(params=["unix", "tcp"])
def address(request, tmp_path_factory) -> str:
    """A free address of each kind."""
    if request.param == "tcp":
        return _tcp_address()
    return f"unix:{tmp_path_factory.mktemp('s')}/a.sock"


@pytest.fixture
def unix_address(tmp_path_factory) -> str:
    """A free Unix address."""
    return f"unix:{tmp_path_factory.mktemp('s')}/a.sock"
