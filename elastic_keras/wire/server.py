"""A gRPC server for any service, from its descriptor."""

import contextvars
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message

from elastic_keras.config import ConfigError
from elastic_keras.wire import channels, services
from elastic_keras.wire.errors import Refused, WireError
from elastic_keras.wire.pieces import Assembler, cut
from elastic_keras.wire.services import Method
from elastic_keras.wire.tls import Tls

_LOGGER = logging.getLogger(__name__)
# A status message travels in the trailers, up to three times as long as its
# bytes; gRPC wants those under 8 KiB.
_LONGEST_MESSAGE = 2000
_CONTEXT: contextvars.ContextVar[grpc.aio.ServicerContext | None] = (
    contextvars.ContextVar("context", default=None)
)

_REQUEST_BYTES: contextvars.ContextVar[int] = contextvars.ContextVar(
    "request_bytes", default=0
)


def request_bytes() -> int:
    """Returns the size of the current call's request, as it travelled.

    Costs nothing, while a message's `ByteSize()` serialises it.
    """
    return _REQUEST_BYTES.get()


def time_remaining() -> float | None:
    """Returns the seconds until the current call's deadline.

    For a handler that waits: `None` outside a call or without a deadline.
    """
    context = _CONTEXT.get()
    return None if context is None else context.time_remaining()


def make_server(
    servicer: object,
    service: ServiceDescriptor,
    address: str,
    *,
    token: str = "",
    tls: Tls | None = None,
    max_message_bytes: int = channels.DEFAULT_MAX_MESSAGE_BYTES,
) -> grpc.aio.Server:
    """Makes a server that is bound to its address, not yet started.

    Call it inside the event loop that will serve. The handler of a client
    that goes away or whose deadline passes is cancelled at its next await.

    Args:
        servicer: Has a coroutine method `async def Name(self, request)` for
            each method of the service, an asynchronous generator for a
            streaming one; `Exchange` is served here.
        service: The service's descriptor.
        address: `unix:PATH` or `HOST:PORT`.
        token: What each call must bring along; empty for nothing.
        tls: Certificates; `None` for connections without TLS.
        max_message_bytes: Largest message accepted or sent.

    Raises:
        ConfigError: The address is taken or wrong.
        TypeError: The servicer lacks a method.
    """
    channels.claim(address)
    handlers = _Handlers(servicer, service, token, max_message_bytes)
    server = grpc.aio.server(options=channels.server_options(max_message_bytes))
    server.add_generic_rpc_handlers((handlers.generic(),))
    try:
        if tls is None:
            port = server.add_insecure_port(address)
        else:
            credentials = channels.server_credentials(tls)
            port = server.add_secure_port(address, credentials)
    except RuntimeError as error:
        raise _taken(address) from error
    if port == 0:
        raise _taken(address)
    return server


def _taken(address: str) -> ConfigError:
    return ConfigError(
        "Cannot listen there: another process does, or the address is not "
        f"this machine's. Received: address={address!r}"
    )


class _Handlers:
    """The handlers of one service: token, parsing, errors, pieces."""

    def __init__(
        self,
        servicer: object,
        service: ServiceDescriptor,
        token: str,
        max_message_bytes: int,
    ) -> None:
        self._service = service
        self._methods = services.methods(service)
        self._token = token.encode()
        self._max_message_bytes = max_message_bytes
        self._functions: dict[str, Callable[[Any], Any]] = {}
        for name in self._methods:
            function = getattr(servicer, name, None)
            if function is None:
                raise TypeError(
                    f"A servicer of {service.name} has a method {name}. "
                    f"Received: servicer={servicer!r}"
                )
            self._functions[name] = function

    def generic(self) -> grpc.GenericRpcHandler:
        """Returns what a gRPC server is given."""
        handlers: dict[str, grpc.RpcMethodHandler] = {
            method.name: self._handler(method)
            for method in self._methods.values()
        }
        # Messages stay bytes as far as gRPC is concerned: the token is
        # checked before anything is parsed.
        handlers[services.EXCHANGE] = grpc.stream_stream_rpc_method_handler(
            self._exchange
        )
        return grpc.method_handlers_generic_handler(
            self._service.full_name, handlers
        )

    def _handler(self, method: Method) -> grpc.RpcMethodHandler:
        if method.streaming:

            async def stream(
                raw: bytes, context: grpc.aio.ServicerContext
            ) -> AsyncIterator[bytes]:
                try:
                    self._enter(context)
                    request = _parse(method, raw)
                    async for reply in self._functions[method.name](request):
                        yield _serialize(method, reply)
                except Exception as error:
                    await _abort(context, method.name, error)

            return grpc.unary_stream_rpc_method_handler(stream)

        async def unary(raw: bytes, context: grpc.aio.ServicerContext) -> bytes:
            try:
                self._enter(context)
                return await self._call(method, raw)
            except Exception as error:
                await _abort(context, method.name, error)
                raise

        return grpc.unary_unary_rpc_method_handler(unary)

    async def _exchange(
        self,
        raw_pieces: AsyncIterator[bytes],
        context: grpc.aio.ServicerContext,
    ) -> AsyncIterator[bytes]:
        name = services.EXCHANGE
        try:
            self._enter(context)
            assembler = Assembler(self._max_message_bytes)
            async for raw in raw_pieces:
                assembler.add(raw)
            name = assembler.method
            method = self._methods.get(name)
            if method is None or method.streaming:
                raise WireError(
                    f"method: not one that comes in pieces. Received: "
                    f"method={name!r}"
                )
            reply = await self._call(method, assembler.message())
            for piece in cut(reply, name):
                yield piece
        except Exception as error:
            await _abort(context, name, error)

    def _enter(self, context: grpc.aio.ServicerContext) -> None:
        if self._token:
            received: str | bytes = b""
            for key, value in context.invocation_metadata() or ():
                if key == channels.TOKEN_KEY:
                    received = value
            if isinstance(received, str):
                received = received.encode()
            if not hmac.compare_digest(received, self._token):
                raise Refused(
                    "UNAUTHENTICATED", "The job's token is missing or wrong."
                )
        _CONTEXT.set(context)

    async def _call(self, method: Method, raw: bytes) -> bytes:
        function: Callable[[Message], Awaitable[Message]]
        function = self._functions[method.name]
        _REQUEST_BYTES.set(len(raw))
        return _serialize(method, await function(_parse(method, raw)))


def _parse(method: Method, raw: bytes) -> Message:
    try:
        return method.request.FromString(raw)
    except DecodeError as error:
        raise WireError(
            f"request: not a {method.request.DESCRIPTOR.name} message. "
            f"Received: {len(raw)} bytes"
        ) from error


def _serialize(method: Method, reply: Message) -> bytes:
    if type(reply) is not method.reply:
        raise TypeError(
            f"{method.name} answers with a {method.reply.DESCRIPTOR.name}. "
            f"Received: reply of type {type(reply).__name__}"
        )
    return reply.SerializeToString()


async def _abort(
    context: grpc.aio.ServicerContext, name: str, error: Exception
) -> None:
    """Ends a call with the status that an exception stands for."""
    if isinstance(error, grpc.aio.AbortError):
        raise error
    if isinstance(error, Refused):
        code, message = grpc.StatusCode[error.code], error.message
    elif isinstance(error, WireError):
        code, message = grpc.StatusCode.INVALID_ARGUMENT, str(error)
    else:
        _LOGGER.error("%s failed", name, exc_info=error)
        code = grpc.StatusCode.INTERNAL
        message = f"{type(error).__name__}: {error}"
    cut_off = message.encode(errors="replace")[:_LONGEST_MESSAGE]
    await context.abort(code, cut_off.decode(errors="ignore"))
