"""An asyncio gRPC client for any service, from its descriptor."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from elastic_keras.wire import channels
from elastic_keras.wire.client import (
    DEFAULT_RETRY_FOR,
    DEFAULT_STREAM_TIMEOUT,
    DEFAULT_TIMEOUT,
)
from elastic_keras.wire.endpoint import Endpoint
from elastic_keras.wire.errors import WireError
from elastic_keras.wire.pieces import LARGE_BYTES, Assembler, cut
from elastic_keras.wire.retries import Retry


class AioClient:
    """One server, seen by an event loop; make it inside the loop.

    Args:
        address: `unix:PATH` or `HOST:PORT`.
        service: The service's descriptor.
        token: The job's token.
        timeout: Deadline of one attempt, in seconds.
        max_message_bytes: Largest message sent or accepted.
    """

    def __init__(
        self,
        address: str,
        service: ServiceDescriptor,
        *,
        token: str = "",
        timeout: float = DEFAULT_TIMEOUT,
        max_message_bytes: int = channels.DEFAULT_MAX_MESSAGE_BYTES,
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._max_message_bytes = max_message_bytes
        self._closed = False
        self._endpoint = Endpoint(address, service, token, max_message_bytes)
        self._channel = grpc.aio.insecure_channel(
            address, options=channels.client_options(max_message_bytes)
        )
        self._unary = {
            method.name: self._channel.unary_unary(method.path, None, None)
            for method in self._endpoint.methods.values()
            if not method.streaming
        }
        self._exchange = self._channel.stream_stream(
            self._endpoint.exchange_path, None, None
        )

    async def call(
        self,
        method: str,
        request: Message,
        *,
        timeout: float | None = None,
        retry_for: float | None = DEFAULT_RETRY_FOR,
        wait_for_ready: bool = True,
        large: bool = False,
    ) -> Any:
        """Calls a method; see `Client.call`.

        Args:
            method: The method's name.
            request: Its request.
            timeout: Deadline of one attempt, in seconds; `None` for the
                client's.
            retry_for: Seconds after which the call is given up; 0 makes
                one attempt, `None` never gives up.
            wait_for_ready: Let an attempt wait for the connection.
            large: The reply may be large: let it travel in pieces.

        Returns:
            The method's reply message.

        Raises:
            RpcError: The call failed for good.
        """
        data = self._endpoint.serialize(method, request)
        retry = Retry(timeout or self._timeout, retry_for)
        in_pieces = large or len(data) > LARGE_BYTES
        attempt = self._attempt_in_pieces if in_pieces else self._attempt
        while True:
            self._check_open(method)
            try:
                raw = await attempt(
                    method, data, retry.attempt_timeout(), wait_for_ready
                )
                return self._endpoint.parse(method, raw)
            except grpc.RpcError as error:
                await self._pause(method, retry, error)

    async def stream(
        self,
        method: str,
        request: Message,
        *,
        timeout: float = DEFAULT_STREAM_TIMEOUT,
        retry_for: float | None = DEFAULT_RETRY_FOR,
    ) -> AsyncIterator[Any]:
        """Follows a method that answers with a stream; see `Client.stream`.

        Args:
            method: The method's name.
            request: Its request.
            timeout: Deadline of one opening, in seconds.
            retry_for: Seconds without a message after which the stream is
                given up; 0 opens it once, `None` never gives up.

        Yields:
            The replies.

        Raises:
            RpcError: The stream failed for good.
        """
        data = self._endpoint.serialize(method, request)
        opened = self._channel.unary_stream(
            self._endpoint.methods[method].path, None, None
        )
        retry = Retry(timeout, retry_for)
        while True:
            self._check_open(method)
            try:
                async for raw in opened(
                    data,
                    timeout=timeout,
                    metadata=self._endpoint.metadata,
                    wait_for_ready=True,
                ):
                    yield self._endpoint.parse(method, raw)
                    retry = Retry(timeout, retry_for)
                return
            except grpc.RpcError as error:
                await self._pause(method, retry, error)

    async def close(self) -> None:
        """Ends all calls and the connection."""
        self._closed = True
        await self._channel.close(None)

    def _check_open(self, method: str) -> None:
        if self._closed:
            raise self._endpoint.error(
                method, "CANCELLED", "the client was closed"
            )

    async def _pause(
        self, method: str, retry: Retry, error: grpc.RpcError
    ) -> None:
        """Waits before the next attempt, or raises."""
        pause = retry.pause(error.code().name)
        if pause is None:
            raise self._endpoint.failed(method, error) from error
        await asyncio.sleep(pause)

    async def _attempt(
        self, method: str, data: bytes, timeout: float, wait_for_ready: bool
    ) -> bytes:
        return await self._unary[method](
            data,
            timeout=timeout,
            metadata=self._endpoint.metadata,
            wait_for_ready=wait_for_ready,
        )

    async def _attempt_in_pieces(
        self, method: str, data: bytes, timeout: float, wait_for_ready: bool
    ) -> bytes:
        pieces = self._exchange(
            cut(data, method),
            timeout=timeout,
            metadata=self._endpoint.metadata,
            wait_for_ready=wait_for_ready,
        )
        assembler = Assembler(self._max_message_bytes)
        try:
            async for raw in pieces:
                assembler.add(raw)
            return assembler.message()
        except WireError as error:
            pieces.cancel()
            raise self._endpoint.error(
                method, "DATA_LOSS", str(error)
            ) from error
