"""Metrics over HTTP, on a free port of loopback."""

import contextlib
import urllib.error
import urllib.request

import pytest

from elastic_keras.config import ConfigError
from elastic_keras.monitoring.metrics_server import MetricsServer


@contextlib.contextmanager
def _serving(render):
    server = MetricsServer(0, "text/plain", render)
    server.start()
    try:
        yield server
    finally:
        server.close()


def test_the_text_is_made_for_each_request():
    numbers = iter("ab")
    with _serving(lambda: next(numbers)) as server:
        for wanted in (b"a", b"b"):
            with urllib.request.urlopen(server.url) as reply:
                assert reply.headers["Content-Type"] == "text/plain"
                assert reply.read() == wanted


def test_any_other_path_is_not_found():
    with (
        _serving(str) as server,
        pytest.raises(urllib.error.HTTPError, match="404"),
    ):
        urllib.request.urlopen(server.url.replace("metrics", "secrets"))


def test_a_job_that_does_not_answer():
    def late():
        raise TimeoutError

    with (
        _serving(late) as server,
        pytest.raises(urllib.error.HTTPError, match="503"),
    ):
        urllib.request.urlopen(server.url)


def test_a_taken_port_is_named():
    with _serving(str) as server:
        port = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(ConfigError) as caught:
            MetricsServer(port, "text/plain", str)
    assert str(caught.value) == (
        f"Port {port} cannot be used: Address already in use; name another "
        f"with --metrics_port, or 0 for none. Received: metrics_port={port}"
    )
    # Given back.
    MetricsServer(port, "text/plain", str).close()
