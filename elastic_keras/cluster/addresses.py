"""Where the servers of a local job listen."""

import contextlib
import dataclasses
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator

from elastic_keras.config import ConfigError, JobConfig

_HOST = "127.0.0.1"
_LARGEST_PORT = 65535
# sun_path of a Unix socket holds 108 bytes on Linux, 104 elsewhere.
_LONGEST_SOCKET_PATH = 100


@dataclasses.dataclass(frozen=True)
class Addresses:
    """gRPC addresses of the master and of each shard.

    Args:
        master: That of the master.
        shards: Those of the shards.
        folder: Where their Unix sockets are; empty if they have none.
    """

    master: str
    shards: tuple[str, ...]
    folder: str = ""


@contextlib.contextmanager
def local_addresses(config: JobConfig) -> Iterator[Addresses]:
    """Picks the addresses of a job on this host.

    Args:
        config: `--transport`, `--port` and `--num_ps`.

    Yields:
        The addresses. Unix sockets live in a private folder of the user
        until the context ends.

    Raises:
        ConfigError: A port is taken or out of range.
    """
    if config.wire.transport == "tcp":
        ports = _tcp_ports(config.cluster.port, 1 + config.cluster.num_ps)
        names = [f"{_HOST}:{port}" for port in ports]
        yield Addresses(names[0], tuple(names[1:]))
        return
    folder = _socket_folder()
    try:
        names = [
            f"unix:{os.path.join(folder, f'ps-{index}.sock')}"
            for index in range(config.cluster.num_ps)
        ]
        master = f"unix:{os.path.join(folder, 'master.sock')}"
        yield Addresses(master, tuple(names), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _socket_folder() -> str:
    # mkdtemp makes it 0700: nobody else reaches the sockets.
    folder = tempfile.mkdtemp(prefix="ek-")
    if len(folder) + len("/ps-00000.sock") <= _LONGEST_SOCKET_PATH:
        return folder
    os.rmdir(folder)
    return tempfile.mkdtemp(prefix="ek-", dir="/tmp")


def _tcp_ports(first: int, count: int) -> list[int]:
    """Returns ports that are free now: `first` and those after it, or any."""
    if first and first + count - 1 > _LARGEST_PORT:
        raise ConfigError(
            f"--port leaves no room for {count} servers below "
            f"{_LARGEST_PORT + 1}. Received: port={first}"
        )
    with contextlib.ExitStack() as stack:
        ports = []
        for offset in range(count):
            probe = stack.enter_context(
                socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            )
            # As gRPC does: a port in TIME_WAIT is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = first + offset if first else 0
            try:
                probe.bind((_HOST, port))
                # Two sockets with SO_REUSEADDR may share a port unless one
                # of them listens.
                probe.listen(1)
            except OSError as error:
                raise ConfigError(
                    f"Port {port} cannot be used: {error.strerror}; name "
                    "another with --port, or 0 for any. "
                    f"Received: port={first}"
                ) from error
            ports.append(probe.getsockname()[1])
        return ports
