"""A synchronous gRPC client for any service, from its descriptor."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from elastic_keras.wire import channels
from elastic_keras.wire.endpoint import Endpoint
from elastic_keras.wire.errors import RpcError, WireError
from elastic_keras.wire.pieces import LARGE_BYTES, Assembler, cut
from elastic_keras.wire.retries import Retry

DEFAULT_TIMEOUT = 60.0
DEFAULT_RETRY_FOR = 300.0
DEFAULT_STREAM_TIMEOUT = 3600.0


class Client:
    """One server, seen by threads; every thread may use it.

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
        self._closed = threading.Event()
        self._endpoint = Endpoint(address, service, token, max_message_bytes)
        self._channel = grpc.insecure_channel(
            address, options=channels.client_options(max_message_bytes)
        )
        # gRPC is given bytes: a request is serialised once for all attempts.
        self._unary = {
            method.name: self._channel.unary_unary(method.path, None, None)
            for method in self._endpoint.methods.values()
            if not method.streaming
        }
        self._exchange = self._channel.stream_stream(
            self._endpoint.exchange_path, None, None
        )

    def call(
        self,
        method: str,
        request: Message,
        *,
        timeout: float | None = None,
        retry_for: float | None = DEFAULT_RETRY_FOR,
        wait_for_ready: bool = True,
        large: bool = False,
    ) -> Any:
        """Calls a method and waits for its reply.

        A server that is away or late is tried again with backoff and
        jitter; any other failure is final. A large request travels in
        pieces, and then so does its reply.

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
        return self._run(method, data, retry, wait_for_ready, large)

    def call_future(
        self,
        method: str,
        request: Message,
        *,
        timeout: float | None = None,
        retry_for: float | None = DEFAULT_RETRY_FOR,
        wait_for_ready: bool = True,
        large: bool = False,
    ) -> "Future[Any]":
        """Starts a call; for several servers at once.

        Takes the same arguments as `call`. A small call costs no thread; its
        future's callbacks run in gRPC's thread and must be quick. The future
        cannot be cancelled; `close` ends it.

        Returns:
            A future of the reply, or of the `RpcError`.
        """
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            data = self._endpoint.serialize(method, request)
        except RpcError as error:
            future.set_exception(error)
            return future
        retry = Retry(timeout or self._timeout, retry_for)
        if large or len(data) > LARGE_BYTES:
            # Pieces are read by a thread, which next to megabytes is cheap.
            # No pool: a bounded one full of waiting pulls would hold back
            # the push that they wait for.
            threading.Thread(
                target=self._finish_large,
                args=(future, method, data, retry, wait_for_ready),
                daemon=True,
            ).start()
        else:
            self._start(future, method, data, retry, wait_for_ready)
        return future

    def stream(
        self,
        method: str,
        request: Message,
        *,
        timeout: float = DEFAULT_STREAM_TIMEOUT,
        retry_for: float | None = DEFAULT_RETRY_FOR,
    ) -> Iterator[Any]:
        """Follows a method that answers with a stream.

        The stream is opened again after a break; it then begins as a new
        call does.

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
            try:
                for raw in opened(
                    data,
                    timeout=timeout,
                    metadata=self._endpoint.metadata,
                    wait_for_ready=True,
                ):
                    yield self._endpoint.parse(method, raw)
                    retry = Retry(timeout, retry_for)
                return
            except ValueError as error:
                raise self._closed_error(method, error) from error
            except grpc.RpcError as error:
                self._pause(method, retry, error)

    def close(self) -> None:
        """Ends all calls and the connection."""
        self._closed.set()
        self._channel.close()

    def _run(
        self,
        method: str,
        data: bytes,
        retry: Retry,
        wait_for_ready: bool,
        large: bool,
    ) -> Any:
        in_pieces = large or len(data) > LARGE_BYTES
        attempt = self._attempt_in_pieces if in_pieces else self._attempt
        while True:
            try:
                raw = attempt(
                    method, data, retry.attempt_timeout(), wait_for_ready
                )
                return self._endpoint.parse(method, raw)
            except ValueError as error:
                raise self._closed_error(method, error) from error
            except grpc.RpcError as error:
                self._pause(method, retry, error)

    def _pause(self, method: str, retry: Retry, error: grpc.RpcError) -> None:
        """Waits before the next attempt, or raises."""
        pause = retry.pause(error.code().name)
        if pause is None or self._closed.wait(pause):
            raise self._endpoint.failed(method, error) from error

    def _closed_error(self, method: str, error: ValueError) -> RpcError:
        # gRPC raises ValueError for a call on a closed channel.
        return self._endpoint.error(method, "CANCELLED", str(error))

    def _attempt(
        self, method: str, data: bytes, timeout: float, wait_for_ready: bool
    ) -> bytes:
        return self._unary[method](
            data,
            timeout=timeout,
            metadata=self._endpoint.metadata,
            wait_for_ready=wait_for_ready,
        )

    def _attempt_in_pieces(
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
            for raw in pieces:
                assembler.add(raw)
            return assembler.message()
        except WireError as error:
            pieces.cancel()
            raise self._endpoint.error(
                method, "DATA_LOSS", str(error)
            ) from error

    def _finish_large(
        self,
        future: "Future[Any]",
        method: str,
        data: bytes,
        retry: Retry,
        wait_for_ready: bool,
    ) -> None:
        try:
            reply = self._run(method, data, retry, wait_for_ready, True)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(reply)

    def _start(
        self,
        future: "Future[Any]",
        method: str,
        data: bytes,
        retry: Retry,
        wait_for_ready: bool,
    ) -> None:
        """Makes one attempt of a small call in the background."""

        def finish(call: Any) -> None:
            try:
                reply = self._endpoint.parse(method, call.result())
            except grpc.FutureCancelledError:
                future.set_exception(
                    self._endpoint.error(
                        method, "CANCELLED", "the client was closed"
                    )
                )
            except grpc.RpcError as error:
                pause = retry.pause(error.code().name)
                if pause is None or self._closed.is_set():
                    future.set_exception(self._endpoint.failed(method, error))
                    return
                again = threading.Timer(
                    pause,
                    self._start,
                    (future, method, data, retry, wait_for_ready),
                )
                again.daemon = True
                again.start()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(reply)

        try:
            call = self._unary[method].future(
                data,
                timeout=retry.attempt_timeout(),
                metadata=self._endpoint.metadata,
                wait_for_ready=wait_for_ready,
            )
        except ValueError as error:
            future.set_exception(self._closed_error(method, error))
            return
        call.add_done_callback(finish)
