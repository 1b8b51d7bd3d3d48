"""Calls to all shards side by side, large arrays through shared memory."""

import dataclasses
import logging
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any, NamedTuple

import numpy as np

from elastic_keras.wire import rpc, shared_memory
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.retries import RETRIED_CODES
from elastic_keras.wire.shared_memory import Region, Segment

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Call:
    """A call to one shard.

    Args:
        shard: The shard.
        make: Makes the request, its arrays in a region if there is one.
        shared_bytes: Size of a region for request and reply.
        large: Without a region, the reply may be large.
    """

    shard: int
    make: Callable[[Region | None], Any]
    shared_bytes: int = 0
    large: bool = False


class Reply(NamedTuple):
    """A shard's answer.

    Args:
        message: The answer.
        request: What it answers.
        region: Where its arrays may lie.
    """

    message: Any
    request: Any = None
    region: np.ndarray | None = None


class Shards:
    """The shards of a job; any thread may call them.

    Args:
        clients: One for each shard.
        share_memory: Whether shards of this host may share memory.
    """

    def __init__(
        self, clients: Sequence[rpc.Client], share_memory: bool
    ) -> None:
        self._clients = list(clients)
        self._sharing = [False] * len(self._clients)
        here = any(shared_memory.is_available(c.address) for c in clients)
        self._segment = _segment() if share_memory and here else None

    def __len__(self) -> int:
        return len(self._clients)

    def probe(self, shard: int) -> Region | None:
        """Returns a region for a shard to try whether it can open it."""
        address = self._clients[shard].address
        if self._segment is None or not shared_memory.is_available(address):
            return None
        return self._segment.take(1)

    def share(self, shard: int, can_open: bool) -> None:
        """Takes note of whether a shard could open this worker's memory."""
        self._sharing[shard] = can_open

    def call(
        self, method: str, calls: Sequence[Call], **options: Any
    ) -> list[Reply]:
        """Calls several shards at once and waits for all.

        Args:
            method: The method's name.
            calls: One for each shard that is called.
            **options: See `Client.call`.

        Returns:
            The answers, in the order of the calls.

        Raises:
            RpcError: A call failed for good.
        """
        first, *others = [
            _Attempt(self._clients[call.shard], call, self._region(call))
            for call in calls
        ]
        for other in others:
            other.start(method, options)
        try:
            # One in this thread: a handoff to another costs as much as a call.
            return [
                attempt.run(method, options) for attempt in (first, *others)
            ]
        except BaseException:
            # No call shall outlive an error of another.
            for attempt in (first, *others):
                attempt.abandon()
            raise

    def close(self) -> None:
        """Closes the connections; calls under way fail."""
        for client in self._clients:
            client.close()
        if self._segment is not None:
            self._segment.close()

    def _region(self, call: Call) -> Region | None:
        if (
            self._segment is None
            or not self._sharing[call.shard]
            or call.shared_bytes < shared_memory.LEAST_BYTES
        ):
            return None
        return self._segment.take(call.shared_bytes)


def _segment() -> Segment | None:
    try:
        return Segment()
    except OSError as error:
        _LOGGER.warning(
            "Large arrays travel over sockets: no shared memory: %s", error
        )
        return None


class _Attempt:
    """A call, first with shared memory; if that fails, without.

    The shard may still be at work on the attempt that failed, so nothing may
    be put where it reads and writes.

    Args:
        client: The shard.
        call: The call.
        region: Its region, if there is one.
    """

    def __init__(
        self, client: rpc.Client, call: Call, region: Region | None
    ) -> None:
        self._client = client
        self._call = call
        self._region = region
        self._request = call.make(region)
        self._future: futures.Future[Any] | None = None

    def start(self, method: str, options: dict[str, Any]) -> None:
        """Begins it; `run` then waits for it."""
        self._future = self._client.call_future(
            method, self._request, **self._options(options)
        )

    def run(self, method: str, options: dict[str, Any]) -> Reply:
        """Returns the answer, of the call begun or of one made now."""
        try:
            if self._future is not None:
                message = self._future.result()
            else:
                message = self._client.call(
                    method, self._request, **self._options(options)
                )
        except RpcError as error:
            if self._region is None or error.code not in RETRIED_CODES:
                raise
            self._region.use_up()
            return _Attempt(self._client, self._call, None).run(method, options)
        array = None if self._region is None else self._region.array
        return Reply(message, self._request, array)

    def abandon(self) -> None:
        """Waits for what was begun, and forgets it."""
        if self._future is not None:
            futures.wait([self._future])
        if self._region is not None:
            self._region.use_up()

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        if self._region is None:
            return {**options, "large": self._call.large}
        return {**options, "retry_for": 0}
