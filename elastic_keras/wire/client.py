"""A synchronous gRPC client for any service, from its descriptor."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from elastic_keras.wire import channels
from elastic_keras.wire.endpoint import Endpoint
from elastic_keras.wire.errors import RpcError, WireError
from elastic_keras.wire.pieces import LARGE_BYTES, Assembler, cut
from elastic_keras.wire.retries import Retry
from elastic_keras.wire.tls import Tls

DEFAULT_TIMEOUT = 60.0
DEFAULT_RETRY_FOR = 300.0
DEFAULT_STREAM_TIMEOUT = 3600.0


@dataclass(frozen=True)
class _Call:
    """What the attempts of one call share."""

    method: str
    data: bytes
    retry: Retry
    wait_for_ready: bool
    in_pieces: bool


class _SmallReply(Future[Any]):
    """The reply of a small call; who cancels it ends the call."""

    attempt: Any = None

    def cancel(self) -> bool:
        """Cancels the call unless it is done."""
        cancelled = super().cancel()
        attempt = self.attempt
        if cancelled and attempt is not None:
            attempt.cancel()
        return cancelled


class Client:
    """One server, seen by threads; every thread may use it.

    Args:
        address: `unix:PATH` or `HOST:PORT`.
        service: The service's descriptor.
        token: The job's token.
        tls: Certificates; `None` for a connection without TLS.
        timeout: Deadline of one attempt, in seconds.
        max_message_bytes: Largest message sent or accepted.
    """

    def __init__(
        self,
        address: str,
        service: ServiceDescriptor,
        *,
        token: str = "",
        tls: Tls | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        max_message_bytes: int = channels.DEFAULT_MAX_MESSAGE_BYTES,
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._max_message_bytes = max_message_bytes
        self._closed = threading.Event()
        self._endpoint = Endpoint(address, service, token, max_message_bytes)
        self._channel = channels.open_channel(address, tls, max_message_bytes)
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
        return self._run(
            self._prepare(
                method, request, timeout, retry_for, wait_for_ready, large
            )
        )

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
        future's callbacks run in gRPC's thread and must be quick, and
        cancelling the future ends the call. The future of a large call cannot
        be cancelled. `close` ends both.

        Returns:
            A future of the reply, or of the `RpcError`.
        """
        future = Future[Any]()
        try:
            call = self._prepare(
                method, request, timeout, retry_for, wait_for_ready, large
            )
        except RpcError as error:
            future.set_exception(error)
            return future
        if call.in_pieces:
            future.set_running_or_notify_cancel()
            # Pieces are read by a thread, which next to megabytes is cheap.
            # No pool: a bounded one full of waiting pulls would hold back
            # the push that they wait for.
            threading.Thread(
                target=self._finish_large, args=(future, call), daemon=True
            ).start()
            return future
        reply = _SmallReply()
        self._start(reply, call)
        return reply

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

    def _prepare(
        self,
        method: str,
        request: Message,
        timeout: float | None,
        retry_for: float | None,
        wait_for_ready: bool,
        large: bool,
    ) -> _Call:
        data = self._endpoint.serialize(method, request)
        return _Call(
            method,
            data,
            Retry(timeout or self._timeout, retry_for),
            wait_for_ready,
            in_pieces=large or len(data) > LARGE_BYTES,
        )

    def _run(self, call: _Call) -> Any:
        attempt = self._attempt_in_pieces if call.in_pieces else self._attempt
        while True:
            try:
                return self._endpoint.parse(call.method, attempt(call))
            except ValueError as error:
                raise self._closed_error(call.method, error) from error
            except grpc.RpcError as error:
                self._pause(call.method, call.retry, error)

    def _pause(self, method: str, retry: Retry, error: grpc.RpcError) -> None:
        """Waits before the next attempt, or raises."""
        pause = retry.pause(error.code().name)
        if pause is None or self._closed.wait(pause):
            raise self._endpoint.failed(method, error) from error

    def _closed_error(self, method: str, error: ValueError) -> RpcError:
        # gRPC raises ValueError for a call on a closed channel.
        return self._endpoint.error(method, "CANCELLED", str(error))

    def _options(self, call: _Call) -> dict[str, Any]:
        """Returns gRPC's options of a call's next attempt."""
        return {
            "timeout": call.retry.attempt_timeout(),
            "metadata": self._endpoint.metadata,
            "wait_for_ready": call.wait_for_ready,
        }

    def _attempt(self, call: _Call) -> bytes:
        return self._unary[call.method](call.data, **self._options(call))

    def _attempt_in_pieces(self, call: _Call) -> bytes:
        pieces = self._exchange(
            cut(call.data, call.method), **self._options(call)
        )
        assembler = Assembler(self._max_message_bytes)
        try:
            for raw in pieces:
                assembler.add(raw)
            return assembler.message()
        except WireError as error:
            pieces.cancel()
            raise self._endpoint.error(
                call.method, "DATA_LOSS", str(error)
            ) from error

    def _finish_large(self, future: "Future[Any]", call: _Call) -> None:
        try:
            reply = self._run(call)
        except Exception as error:
            future.set_exception(error)
        else:
            future.set_result(reply)

    def _start(self, future: _SmallReply, call: _Call) -> None:
        """Makes one attempt of a small call in the background."""
        if future.cancelled():
            return
        try:
            attempt = self._unary[call.method].future(
                call.data, **self._options(call)
            )
        except ValueError as error:
            _settle(future, self._closed_error(call.method, error))
            return
        future.attempt = attempt
        attempt.add_done_callback(lambda done: self._finish(future, call, done))
        if future.cancelled():
            # Too early to have known of this attempt.
            attempt.cancel()

    def _finish(self, future: _SmallReply, call: _Call, attempt: Any) -> None:
        """Takes what a small call's attempt came to, or tries again."""
        future.attempt = None
        try:
            outcome = self._endpoint.parse(call.method, attempt.result())
        except grpc.FutureCancelledError:
            outcome = self._endpoint.error(
                call.method, "CANCELLED", "the client was closed"
            )
        except grpc.RpcError as error:
            pause = call.retry.pause(error.code().name)
            if pause is not None and not self._closed.is_set():
                again = threading.Timer(pause, self._start, (future, call))
                again.daemon = True
                again.start()
                return
            outcome = self._endpoint.failed(call.method, error)
        except Exception as error:
            outcome = error
        _settle(future, outcome)


def _settle(future: _SmallReply, outcome: Any) -> None:
    """Gives a future its reply or error unless it was cancelled."""
    if not future.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
