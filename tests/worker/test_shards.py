"""Calls with shared memory, and what is left when it fails."""

import numpy as np
import pytest

from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import ps_pb2
from elastic_keras.wire.shared_memory import LEAST_BYTES
from elastic_keras.worker.shards import Call, Shards


class _Client:
    """A shard that may fail at its first calls."""

    def __init__(self, address="unix:/x", failures=()):
        self.address = address
        self.failures = list(failures)
        self.requests = []
        self.options = []

    def call(self, method, request, **options):
        self.requests.append(request)
        self.options.append(options)
        if self.failures:
            raise RpcError(self.failures.pop(0), "no", self.address, method)
        return ps_pb2.PushReply(version=len(self.requests))

    def call_future(self, method, request, **options):
        from concurrent.futures import Future

        future = Future()
        try:
            future.set_result(self.call(method, request, **options))
        except RpcError as error:
            future.set_exception(error)
        return future

    def close(self):
        pass


def _request(region):
    request = ps_pb2.PushRequest()
    if region is not None:
        request.region.CopyFrom(region.message)
    return request


def _shards(*clients, share_memory=True):
    shards = Shards(clients, share_memory)
    for index in range(len(clients)):
        shards.share(index, shards.probe(index) is not None)
    return shards


def _call(shards, bytes_=LEAST_BYTES):
    calls = [Call(i, _request, bytes_) for i in range(len(shards))]
    return shards.call("Push", calls, retry_for=7.0)


def test_large_requests_name_a_region_that_comes_back():
    client = _Client()
    shards = _shards(client)
    (reply,) = _call(shards)
    assert reply.region.size == reply.request.region.bytes >= LEAST_BYTES
    first = reply.request.region.offset
    del reply
    (reply,) = _call(shards)
    assert reply.request.region.offset == first
    # One attempt only: the next must not find the first one at work.
    assert client.options == [{"retry_for": 0}] * 2


@pytest.mark.parametrize(
    ("client", "share", "size"),
    [
        (_Client(), True, LEAST_BYTES - 1),
        (_Client(), False, LEAST_BYTES),
        (_Client("10.0.0.1:2222"), True, LEAST_BYTES),
    ],
)
def test_others_do_not(client, share, size):
    (reply,) = _call(_shards(client, share_memory=share), size)
    assert not reply.request.HasField("region")
    assert reply.region is None
    assert client.options == [{"retry_for": 7.0, "large": False}]


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED"])
def test_a_failed_attempt_is_repeated_without_shared_memory(failing, code):
    clients = [_Client(), _Client()]
    clients[failing].failures = [code]
    shards = _shards(*clients)
    replies = _call(shards)
    assert replies[failing].region is None
    assert replies[1 - failing].region is not None
    first, second = clients[failing].requests
    assert first.HasField("region")
    assert not second.HasField("region")
    assert clients[failing].options[1] == {"retry_for": 7.0, "large": False}
    # The shard may be at work on the first one still.
    used_up = first.region.offset
    del replies
    held = [_call(shards) for _ in range(4)]
    for replies in held:
        assert replies[failing].request.region.offset != used_up


@pytest.mark.parametrize("failing", [0, 1])
def test_after_an_error_no_region_of_the_call_comes_back(failing):
    clients = [_Client(), _Client()]
    clients[failing].failures = ["INVALID_ARGUMENT"]
    shards = _shards(*clients)
    with pytest.raises(RpcError, match="no"):
        _call(shards)
    used_up = {c.requests[0].region.offset for c in clients if c.requests}
    held = [_call(shards) for _ in range(4)]
    found = {r.request.region.offset for replies in held for r in replies}
    assert not used_up & found


def test_arrays_outlive_the_call():
    shards = _shards(_Client())
    (reply,) = _call(shards)
    rows = reply.region[:64].view(np.float32)
    rows[:] = 3
    del reply
    (other,) = _call(shards)
    other.region[:] = 0
    np.testing.assert_array_equal(rows, np.full(16, 3, np.float32))


def test_a_host_without_memfds_uses_sockets(monkeypatch):
    def refuse(*_):
        raise OSError("not permitted")

    monkeypatch.setattr("os.memfd_create", refuse)
    shards = _shards(_Client())
    (reply,) = _call(shards)
    assert reply.region is None
