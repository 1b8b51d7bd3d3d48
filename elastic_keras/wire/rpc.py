"""Servers and clients of the services in `protos/`: the public names."""

from elastic_keras.wire.client import Client
from elastic_keras.wire.errors import Refused, RpcError, WireError
from elastic_keras.wire.handshake import PROTOCOL_VERSION, check_join
from elastic_keras.wire.pieces import LARGE_BYTES
from elastic_keras.wire.server import (
    make_server,
    request_bytes,
    time_remaining,
)
from elastic_keras.wire.tls import Tls, read_tls

__all__ = [
    "LARGE_BYTES",
    "PROTOCOL_VERSION",
    "Client",
    "Refused",
    "RpcError",
    "Tls",
    "WireError",
    "check_join",
    "make_server",
    "read_tls",
    "request_bytes",
    "time_remaining",
]
