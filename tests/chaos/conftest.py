"""Shards behind real gRPC, as in their own tests."""

from tests.ps.conftest import kernels, serve  # noqa: F401
