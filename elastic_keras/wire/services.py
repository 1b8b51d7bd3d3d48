"""What a service's descriptor says about its methods."""

import dataclasses

from google.protobuf import message_factory
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

EXCHANGE = "Exchange"


@dataclasses.dataclass(frozen=True)
class Method:
    """One method of a service.

    Args:
        name: Its name, e.g. `"Pull"`.
        path: What gRPC calls it, e.g. `"/elastic_keras.Master/Join"`.
        request: Class of its request.
        reply: Class of its reply.
        streaming: Whether it answers with a stream of replies.
    """

    name: str
    path: str
    request: type[Message]
    reply: type[Message]
    streaming: bool


def methods(service: ServiceDescriptor) -> dict[str, Method]:
    """Returns the methods of a service by name, without `Exchange`."""
    return {
        method.name: Method(
            name=method.name,
            path=path(service, method.name),
            request=message_factory.GetMessageClass(method.input_type),
            reply=message_factory.GetMessageClass(method.output_type),
            streaming=method.server_streaming,
        )
        for method in service.methods
        if method.name != EXCHANGE
    }


def path(service: ServiceDescriptor, method: str) -> str:
    """Returns what gRPC calls a method."""
    return f"/{service.full_name}/{method}"
