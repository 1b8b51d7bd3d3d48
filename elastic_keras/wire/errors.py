"""What can go wrong on the wire."""

import grpc


class WireError(ValueError):
    """Bytes that do not say what they should.

    A server answers it with INVALID_ARGUMENT and the message.
    """


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """A handler's answer other than a reply.

    Args:
        code: Name of a gRPC status code, e.g. `"FAILED_PRECONDITION"`.
        message: What the caller is told.

    Raises:
        ValueError: There is no such code.
    """

    def __init__(self, code: str, message: str) -> None:
        if code not in grpc.StatusCode.__members__:
            raise ValueError(
                f"code is a gRPC status code's name. Received: code={code!r}"
            )
        super().__init__(message)
        self.code = code
        self.message = message


class RpcError(Exception):
    """A call that failed for good, after its retries.

    Args:
        code: Name of the gRPC status code, e.g. `"UNAVAILABLE"`.
        message: The server's or gRPC's message.
        address: The server's address.
        method: The method's name.
    """

    def __init__(
        self, code: str, message: str, address: str, method: str
    ) -> None:
        super().__init__(f"{method} at {address}: {code}: {message}")
        self.code = code
        self.message = message
        self.address = address
        self.method = method
