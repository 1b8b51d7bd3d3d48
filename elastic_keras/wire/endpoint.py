"""What a client knows of its server: methods, bytes and errors."""

from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message

from elastic_keras.wire import channels, services
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.services import Method


class Endpoint:
    """A service at an address: its methods, bytes and errors.

    Args:
        address: `unix:PATH` or `HOST:PORT`.
        service: The service's descriptor.
        token: The job's token.
        max_message_bytes: Largest message sent.
    """

    def __init__(
        self,
        address: str,
        service: ServiceDescriptor,
        token: str,
        max_message_bytes: int,
    ) -> None:
        self.address = address
        self.methods = services.methods(service)
        self.exchange_path = services.path(service, services.EXCHANGE)
        self.metadata = ((channels.TOKEN_KEY, token),) if token else ()
        self._max_message_bytes = max_message_bytes

    def serialize(self, method: str, request: Message) -> bytes:
        """Returns a request's bytes.

        Raises:
            TypeError: Not this method's request.
            RpcError: RESOURCE_EXHAUSTED; it is too large.
        """
        kind = self.methods[method].request
        if type(request) is not kind:
            raise TypeError(
                f"{method} takes a {kind.DESCRIPTOR.name}. "
                f"Received: request of type {type(request).__name__}"
            )
        data = request.SerializeToString()
        if len(data) > self._max_message_bytes:
            raise self.error(
                method,
                "RESOURCE_EXHAUSTED",
                f"a message has at most {self._max_message_bytes} bytes. "
                f"Received: a request of {len(data)} bytes",
            )
        return data

    def parse(self, method: str, raw: bytes) -> Any:
        """Returns the reply that some bytes are.

        Raises:
            RpcError: DATA_LOSS; they are none.
        """
        entry: Method = self.methods[method]
        try:
            return entry.reply.FromString(raw)
        except DecodeError as error:
            raise self.error(
                method,
                "DATA_LOSS",
                f"the reply is not a {entry.reply.DESCRIPTOR.name} message",
            ) from error

    def error(self, method: str, code: str, message: str) -> RpcError:
        """Returns the error of a call to this address."""
        return RpcError(code, message, self.address, method)

    def failed(self, method: str, error: grpc.RpcError) -> RpcError:
        """Returns the error for gRPC's own."""
        return self.error(method, error.code().name, error.details() or "")
