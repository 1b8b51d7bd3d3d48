"""Where the servers of a local job listen."""

import contextlib
import os
import re
import socket
import stat

import pytest

from elastic_keras.cluster.addresses import local_addresses
from elastic_keras.config import ConfigError, JobConfig


def _config(**options):
    return JobConfig.from_options(num_ps=3, **options)


def test_unix_sockets_lie_in_a_private_folder_that_goes_away():
    with local_addresses(_config()) as addresses:
        paths = [
            address.removeprefix("unix:")
            for address in (addresses.master, *addresses.shards)
        ]
        [folder] = {os.path.dirname(path) for path in paths}
        assert len(set(paths)) == 4
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert not os.path.exists(folder)


def test_long_temporary_folder_is_not_used(tmp_path, monkeypatch):
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    with local_addresses(_config()) as addresses:
        assert len(addresses.shards[2].removeprefix("unix:")) < 104
    assert list(long.iterdir()) == []


def test_free_ports_are_different():
    with local_addresses(_config(transport="tcp")) as addresses:
        names = [addresses.master, *addresses.shards]
    assert len(set(names)) == 4
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", name) for name in names)


def test_ports_follow_the_first():
    with contextlib.ExitStack() as stack:
        first = _three_free_ports()
        config = JobConfig.from_options(num_ps=2, transport="tcp", port=first)
        addresses = stack.enter_context(local_addresses(config))
    assert addresses.master == f"127.0.0.1:{first}"
    assert addresses.shards == tuple(
        f"127.0.0.1:{first + number}" for number in (1, 2)
    )


def _three_free_ports():
    """Returns the first of three free ports in a row."""
    for first in range(20000, 30000, 7):
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + 3):
                    probe = stack.enter_context(socket.socket())
                    probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


def test_taken_port_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=f"Port {port} cannot be used"),
            local_addresses(_config(transport="tcp", port=port)),
        ):
            pass


def test_port_without_room_is_refused():
    with (
        pytest.raises(ConfigError, match="no room for 4 servers"),
        local_addresses(_config(transport="tcp", port=65533)),
    ):
        pass
