"""gRPC settings and addresses, the same for all clients and servers."""

import os
import socket
import stat
from typing import Any

import grpc

from elastic_keras.config import ConfigError
from elastic_keras.wire.tls import Tls

TOKEN_KEY = "ek-token"
DEFAULT_MAX_MESSAGE_BYTES = 1 << 30
_UNIX = "unix:"
# sun_path has 108 bytes on Linux, 104 on macOS, with the final zero.
_LONGEST_UNIX_PATH = 103
# Room for gRPC's and protobuf's own bytes around a message.
_MARGIN = 1 << 16
# An unanswered ping means a dead peer. gRPC looks at either of the two,
# depending on which kind of ping it has just sent.
_DEAD_AFTER = (
    ("grpc.keepalive_timeout_ms", 15_000),
    ("grpc.http2.ping_timeout_ms", 15_000),
)

_Options = list[tuple[str, int]]


def client_options(max_message_bytes: int) -> _Options:
    """Returns the channel options of a client.

    Args:
        max_message_bytes: Largest message sent or accepted.
    """
    return [
        *_common_options(max_message_bytes),
        # Addresses are those of the job's own processes.
        ("grpc.enable_http_proxy", 0),
        # One connection a client: a large push does not stand before a pull.
        ("grpc.use_local_subchannel_pool", 1),
        # A process that starts is found within a third of a second.
        ("grpc.initial_reconnect_backoff_ms", 100),
        # gRPC uses this one as the time that connecting may take.
        ("grpc.min_reconnect_backoff_ms", 5000),
        ("grpc.max_reconnect_backoff_ms", 300),
        # A peer that is gone without a word (host down, network cut) is
        # noticed within half a minute.
        ("grpc.keepalive_time_ms", 15_000),
        *_DEAD_AFTER,
    ]


def open_channel(
    address: str, tls: Tls | None, max_message_bytes: int
) -> grpc.Channel:
    """Opens a channel to a server.

    Args:
        address: `unix:PATH` or `HOST:PORT`.
        tls: Certificates; `None` for none.
        max_message_bytes: Largest message sent or accepted.
    """
    options: list[tuple[str, Any]] = [*client_options(max_message_bytes)]
    if tls is None:
        return grpc.insecure_channel(address, options=options)
    if tls.name:
        options.append(("grpc.ssl_target_name_override", tls.name))
    own = (tls.key, tls.certificate) if tls.mutual else (None, None)
    credentials = grpc.ssl_channel_credentials(tls.authority, *own)
    return grpc.secure_channel(address, credentials, options=options)


def server_credentials(tls: Tls) -> grpc.ServerCredentials:
    """Returns what a server with certificates is bound with."""
    return grpc.ssl_server_credentials(
        [(tls.key, tls.certificate)],
        root_certificates=tls.authority if tls.mutual else None,
        require_client_auth=tls.mutual,
    )


def server_options(max_message_bytes: int) -> _Options:
    """Returns the options of a server.

    Args:
        max_message_bytes: Largest message sent or accepted.
    """
    return [
        *_common_options(max_message_bytes),
        # Two servers on one port would each get half of the calls.
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", 30_000),
        *_DEAD_AFTER,
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 0),
    ]


def _common_options(max_message_bytes: int) -> _Options:
    limit = min(max_message_bytes + _MARGIN, (1 << 31) - 1)
    return [
        ("grpc.max_send_message_length", limit),
        ("grpc.max_receive_message_length", limit),
        ("grpc.http2.max_pings_without_data", 0),
    ]


def claim(address: str) -> None:
    """Makes an address ready to be listened on.

    Removes the socket file that a dead process left behind.

    Args:
        address: `unix:PATH` or `HOST:PORT`.

    Raises:
        ConfigError: Somebody listens there, or nobody can.
    """
    if address.startswith(_UNIX):
        _claim_unix(address.removeprefix(_UNIX), address)
        return
    port = address.rpartition(":")[2]
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise ConfigError(
            "An address is unix:PATH or HOST:PORT. "
            f"Received: address={address!r}"
        )


def _claim_unix(path: str, address: str) -> None:
    if not path or len(os.fsencode(path)) > _LONGEST_UNIX_PATH:
        raise ConfigError(
            f"A socket's path has 1 to {_LONGEST_UNIX_PATH} bytes. "
            f"Received: address={address!r}"
        )
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(
            f"Cannot listen there: {error.strerror}. "
            f"Received: address={address!r}"
        ) from error
    if not stat.S_ISSOCK(mode):
        raise ConfigError(
            "Cannot listen there: a file is in the way. "
            f"Received: address={address!r}"
        )
    if _answers(path):
        raise ConfigError(
            "Cannot listen there: another process does. "
            f"Received: address={address!r}"
        )
    try:
        os.unlink(path)
    except OSError as error:
        raise ConfigError(
            f"Cannot remove a dead process's socket: {error.strerror}. "
            f"Received: address={address!r}"
        ) from error


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            # Busy, or not ours to touch: in any case taken.
            return True
    return True
