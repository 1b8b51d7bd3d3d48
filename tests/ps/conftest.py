"""Shards behind real gRPC."""

import contextlib
import tempfile

import pytest

from elastic_keras.config import StalenessOptions
from elastic_keras.ps import checks, warm_up
from tests.ps.served import Server


@pytest.fixture(scope="module")
def kernels():
    """Compiled before a deadline counts, as in a shard's process."""
    warm_up.warm_up()
    checks.warm_up()


@pytest.fixture
def serve(kernels):
    with contextlib.ExitStack() as stack:

        def start(**options) -> Server:
            # Short: a Unix socket's path has at most 107 characters.
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            server = Server(folder, StalenessOptions(**options))
            stack.callback(server.close)
            return server

        yield start
