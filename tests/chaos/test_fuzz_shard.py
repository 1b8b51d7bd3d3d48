"""Broken and hostile bytes: a shard refuses them, unchanged, and serves on."""

import collections

import grpc
import numpy as np
import pytest

from elastic_keras.signature import OptimizerSpec
from elastic_keras.wire import pieces, tensors
from elastic_keras.wire.proto import ps_pb2, tensor_pb2
from tests.chaos.fingerprint import digest
from tests.chaos.mutations import mutations
from tests.ps import served

pytestmark = pytest.mark.chaos

# What a caller may be told about its own request; anything else is a fault
# of the shard.
REFUSALS = {
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
}
# A pull that may wait for others is given this long.
DEADLINE = 0.2
# Writing files takes longer.
_LONG = {"Snapshot": 30.0, "Cut": 30.0, "AwaitSnapshot": 30.0}
METHODS = [method.name for method in served.SERVICE.methods]
UNARY = [name for name in METHODS if name != "Exchange"]


class Fuzz:
    """A served shard, a bare channel to it, and counts of what it said."""

    def __init__(self, server) -> None:
        self.server = server
        self.counts: collections.Counter = collections.Counter()
        self._channel = grpc.insecure_channel(server.address)

    def close(self) -> None:
        self._channel.close()

    def send(self, method: str, raw: bytes, what: str = "") -> bool:
        """Sends bytes; returns whether they were taken.

        What is refused must have changed nothing.
        """
        call = self._channel.unary_unary(
            f"/elastic_keras.ParameterServer/{method}"
        )
        seconds = _LONG.get(method, DEADLINE)
        return self._judge(what, lambda: call(raw, timeout=seconds))

    def send_pieces(self, parts, what: str = "") -> bool:
        call = self._channel.stream_stream(
            "/elastic_keras.ParameterServer/Exchange"
        )
        return self._judge(
            what, lambda: list(call(iter(parts), timeout=DEADLINE))
        )

    def _judge(self, what, attempt) -> bool:
        before = digest(self.server.shard)
        try:
            attempt()
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
        else:
            self.counts["taken"] += 1
            return True
        self.counts[code.name] += 1
        waits = code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert waits or code in REFUSALS, f"{what}: {code} {details}"
        assert digest(self.server.shard) == before, what
        return False

    def serves(self) -> None:
        """Pushes and pulls as a worker does."""
        version = self.server.status().version
        self._batch = getattr(self, "_batch", 1000) + 1
        reply = self.server.call(
            "Push",
            served.push_request(batch=self._batch, member=2, version=version),
        )
        assert reply.status == ps_pb2.PushReply.APPLIED
        reply = self.server.call(
            "Pull", served.pull_request(mode=ps_pb2.READ, member=2)
        )
        assert len(reply.rows) == 2


@pytest.fixture
def fuzz(serve):
    found = Fuzz(serve(staleness_policy="unbounded").prepare())
    # As the master makes them.
    for folder in ("cut", "whole"):
        (found.server.snapshots / folder).mkdir()
    yield found
    found.serves()
    assert not found.server.failed.is_set()
    found.close()
    print(dict(found.counts))


def valid(server, method):
    """Returns a request that the shard takes."""
    version = server.status().version
    return {
        "Join": served.join_request(),
        "InitDense": ps_pb2.InitDenseRequest(
            dense=tensors.encode(np.zeros(4, np.float32)),
            states=tensors.encode(np.zeros(3, np.float32)),
        ),
        "Pull": served.pull_request(mode=ps_pb2.READ),
        "Push": served.push_request(batch=7, version=version),
        "SetMembers": ps_pb2.SetMembersRequest(number=2, members=[1, 2]),
        "SetLearningRate": ps_pb2.SetLearningRateRequest(learning_rate=0.1),
        "GetProgress": ps_pb2.ProgressRequest(epoch=0, task=1),
        "Cut": ps_pb2.CutRequest(folder="cut"),
        "AwaitSnapshot": ps_pb2.AwaitSnapshotRequest(folder="cut"),
        "CommitSnapshot": ps_pb2.CommitSnapshotRequest(segment=-1),
        "Snapshot": ps_pb2.SnapshotRequest(folder="whole"),
    }.get(method, tensor_pb2.Empty())


def test_every_method_has_a_valid_request(fuzz):
    for method in UNARY:
        message = valid(fuzz.server, method)
        assert fuzz.send(method, message.SerializeToString(), method)


@pytest.mark.parametrize("method", UNARY)
def test_each_field_wrong(fuzz, method):
    message = valid(fuzz.server, method)
    for what, changed in mutations(message):
        fuzz.send(method, changed.SerializeToString(), f"{method} {what}")
        if fuzz.counts.total() % 50 == 0:
            fuzz.serves()


@pytest.mark.parametrize("method", METHODS)
def test_random_bytes(fuzz, method):
    random = np.random.default_rng(0)
    for size in (0, 1, 2, 3, 8, 60, 500, 5000):
        for _ in range(6):
            raw = random.bytes(size)
            if method == "Exchange":
                fuzz.send_pieces([raw], "random piece")
            else:
                fuzz.send(method, raw, f"{method} random {size}")


@pytest.mark.parametrize("method", UNARY)
def test_a_valid_message_cut_off_or_with_a_byte_changed(fuzz, method):
    raw = valid(fuzz.server, method).SerializeToString()
    random = np.random.default_rng(1)
    for end in {*random.integers(0, len(raw) + 1, 25).tolist()}:
        fuzz.send(method, raw[:end], f"{method} cut at {end}")
    for place in (
        {*random.integers(0, max(1, len(raw)), 40).tolist()} if raw else ()
    ):
        changed = bytearray(raw)
        changed[place] ^= 1 << int(random.integers(8))
        fuzz.send(method, bytes(changed), f"{method} byte {place}")


def test_a_push_that_comes_again_changes_nothing(fuzz):
    raw = valid(fuzz.server, "Push").SerializeToString()
    assert fuzz.send("Push", raw)
    rows = fuzz.server.shard._parameters.tables[0].export()[1].copy()
    for _ in range(20):
        assert fuzz.send("Push", raw)
    assert fuzz.server.status().duplicate_pushes == 20
    after = fuzz.server.shard._parameters.tables[0].export()[1]
    np.testing.assert_array_equal(after, rows)


def test_a_worker_of_another_job_or_model_does_not_join(fuzz):
    other = served.MODEL.__class__(
        **{**vars(served.MODEL), "optimizers": (OptimizerSpec("adam", 0.1),)}
    )
    for request in (
        served.join_request(job_id="another"),
        served.join_request(other),
        served.join_request(protocol_version=99),
        served.join_request(num_shards=2),
        served.join_request(shard_index=1),
    ):
        assert not fuzz.send("Join", request.SerializeToString())


def test_pieces_that_stop_in_the_middle(fuzz):
    push = valid(fuzz.server, "Push")
    push.dense.data = bytes(3 << 20)
    parts = list(pieces.cut(push.SerializeToString(), "Push"))
    assert len(parts) > 1
    for count in range(len(parts)):
        assert not fuzz.send_pieces(parts[:count], f"{count} pieces")
    for part in range(len(parts)):
        for end in (0, 1, 30, len(parts[part]) - 1):
            torn = [*parts[:part], parts[part][:end], *parts[part + 1 :]]
            assert not fuzz.send_pieces(torn, f"piece {part} cut at {end}")
    assert not fuzz.send_pieces(parts[::-1], "reversed")
    assert not fuzz.send_pieces([parts[0], *parts], "first twice")


def test_a_stopped_pull_leaves_no_waiter(serve):
    server = serve(max_staleness=0).prepare().meet(1, 2)
    fuzz = Fuzz(server)
    try:
        raw = served.pull_request(step=1).SerializeToString()
        for _ in range(5):
            assert not fuzz.send("Pull", raw)
        assert fuzz.counts == {"DEADLINE_EXCEEDED": 5}
        server.wait_for(lambda status: status.waiting_pulls == 0)
    finally:
        fuzz.close()
