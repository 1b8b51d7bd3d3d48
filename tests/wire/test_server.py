"""What a server refuses: bytes, pieces, addresses."""

import os
import socket

import grpc
import pytest

from elastic_keras.config import ConfigError
from elastic_keras.wire import pieces, rpc
from elastic_keras.wire.proto import ps_pb2, tensor_pb2
from tests.wire.stand_ins import SHARD, ShardStandIn

EMPTY = tensor_pb2.Empty()
EXCHANGE = "/elastic_keras.ParameterServer/Exchange"


@pytest.fixture
def raw(unix_address, serve):
    """A bare channel to a server, for what a client would never send."""
    serve(ShardStandIn(), SHARD, unix_address, max_message_bytes=8 << 20)
    with grpc.insecure_channel(unix_address) as channel:
        yield channel


def _exchange(channel, parts):
    return list(channel.stream_stream(EXCHANGE)(iter(parts), timeout=60))


def _cut(size=5 << 20, method="Push"):
    request = ps_pb2.PushRequest(dense=tensor_pb2.Tensor(data=bytes(size)))
    return list(pieces.cut(request.SerializeToString(), method))


def _damaged():
    parts = _cut()
    piece = tensor_pb2.Piece.FromString(parts[1])
    piece.crc32c ^= 1
    return [parts[0], piece.SerializeToString(), parts[2]]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "method: not one"),
        ([b"\xff\xff"], "piece 0: not a Piece"),
        (_cut(method="Exchange"), "method: not one"),
        (_cut(method="Nothing"), "Received: method='Nothing'"),
        (_cut()[:2], "pieces: the message has"),
        (_cut()[1:], "piece 0: the message has 0 bytes"),
        (_damaged(), "piece 1: the checksum"),
        (_cut() + _cut()[-1:], f"piece {len(_cut())}: the message has"),
        (_cut(9 << 20), "total_bytes: a message has at most"),
        (list(pieces.cut(b"\xff" * 100, "Push")), "not a PushRequest"),
    ],
)
def test_bad_pieces_are_refused_and_the_server_goes_on(raw, parts, message):
    with pytest.raises(grpc.RpcError) as caught:
        _exchange(raw, parts)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert message in caught.value.details()
    replies = [tensor_pb2.Piece.FromString(p) for p in _exchange(raw, _cut())]
    assert ps_pb2.PushReply.FromString(replies[0].data).version == 5 << 20


def test_bytes_that_are_no_request(raw):
    call = raw.unary_unary("/elastic_keras.ParameterServer/Push")
    with pytest.raises(grpc.RpcError) as caught:
        call(b"\xff\xff\xff", timeout=60)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "not a PushRequest" in caught.value.details()


def test_an_unknown_method(raw):
    with pytest.raises(grpc.RpcError) as caught:
        raw.unary_unary("/elastic_keras.ParameterServer/Drop")(b"", timeout=60)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_token_may_be_any_bytes(unix_address, serve):
    serve(ShardStandIn(), SHARD, unix_address, token="token")
    with grpc.insecure_channel(unix_address) as channel:
        call = channel.unary_unary("/elastic_keras.ParameterServer/Flush")
        for metadata in (
            (("ek-token", "~!@# $%"),),
            (("ek-token-bin", b"\xff"),),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                call(b"", metadata=metadata, timeout=60)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_taken_address_is_named(address, serve, connect):
    serve(ShardStandIn(), SHARD, address)
    with pytest.raises(ConfigError, match="another process") as caught:
        serve(ShardStandIn(), SHARD, address)
    assert f"Received: address={address!r}" in str(caught.value)
    assert connect(address, SHARD).call("Flush", EMPTY).version == 5


def test_a_dead_processs_socket_is_no_hindrance(unix_address, serve, connect):
    path = unix_address.removeprefix("unix:")
    left = socket.socket(socket.AF_UNIX)
    left.bind(path)
    left.close()
    assert os.path.exists(path)
    serve(ShardStandIn(), SHARD, unix_address)
    assert connect(unix_address, SHARD).call("Flush", EMPTY).version == 5


def test_a_file_in_the_way_is_left_alone(tmp_path, serve):
    path = tmp_path / "notes"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="a file is in the way"):
        serve(ShardStandIn(), SHARD, f"unix:{path}")
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    "wrong",
    [
        "unix:",
        "unix:/" + "a" * 200,
        "unix:/dev/null/a.sock",
        "127.0.0.1",
        "127.0.0.1:0",
        "127.0.0.1:70000",
        "127.0.0.1:http",
        "",
        "unix:/nonexistent-directory/a.sock",
        "192.0.2.1:50051",
    ],
)
def test_wrong_addresses(wrong, serve):
    with pytest.raises(ConfigError) as caught:
        serve(ShardStandIn(), SHARD, wrong)
    assert f"Received: address={wrong!r}" in str(caught.value)


def test_a_servicer_without_a_method(unix_address, serve):
    class Incomplete:
        async def Join(self, request):  # noqa: N802
            return ps_pb2.ShardJoinReply()

    with pytest.raises(TypeError, match="has a method InitDense"):
        serve(Incomplete(), SHARD, unix_address)


def test_outside_a_call_there_is_no_deadline():
    assert rpc.time_remaining() is None
