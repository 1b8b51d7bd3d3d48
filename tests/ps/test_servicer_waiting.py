"""Pulls that wait, behind real gRPC."""

import pytest

from elastic_keras.wire import rpc
from elastic_keras.wire.proto import ps_pb2
from tests.ps.served import SERVICE, THREADS, pull_request, push_request


def test_more_waiting_pulls_than_threads_do_not_block_a_push(serve):
    server = serve(max_staleness=0).prepare()
    server.call("Pull", pull_request(0))
    waiting = [
        server.client.call_future("Pull", pull_request(1), retry_for=0)
        for _ in range(8 * THREADS)
    ]
    server.wait_for(lambda s: s.waiting_pulls == len(waiting))
    server.call("Push", push_request(0, member=1))
    assert not any(call.done() for call in waiting)
    server.call("Push", push_request(0, member=2))
    replies = [call.result(timeout=30) for call in waiting]
    # Granted by the last push, so that they read what it did.
    assert {reply.version for reply in replies} == {2}
    assert server.status().waiting_pulls == 0


def test_a_member_that_leaves_frees_the_waiting(serve):
    server = serve(max_staleness=0).prepare().meet(1, 2)
    server.call("Push", push_request(0, member=1))
    held = server.client.call_future("Pull", pull_request(1), retry_for=0)
    gone = server.client.call_future(
        "Pull", pull_request(1, member=2), retry_for=0
    )
    server.wait_for(lambda s: s.waiting_pulls == 2)
    server.set_members(2, 1)
    assert held.result(timeout=30).version == 1
    with pytest.raises(rpc.RpcError, match=r"ABORTED.*taken this member off"):
        gone.result(timeout=30)


def test_a_pull_of_an_unknown_member_waits_for_the_list(serve):
    server = serve().prepare()
    call = server.client.call_future(
        "Pull", pull_request(member=9), retry_for=0
    )
    server.wait_for(lambda s: s.waiting_pulls == 1)
    server.set_members(2, 1, 2, 9)
    assert call.result(timeout=30).version == 0


def test_a_deadline_drops_the_waiting_pull(serve):
    server = serve().prepare().meet(1)
    with pytest.raises(rpc.RpcError, match="DEADLINE_EXCEEDED"):
        server.call("Pull", pull_request(5), timeout=0.2)
    server.wait_for(lambda s: s.waiting_pulls == 0)


def test_a_client_that_goes_drops_its_waiting_pull(serve):
    server = serve().prepare().meet(1)
    other = rpc.Client(server.address, SERVICE)
    call = other.call_future("Pull", pull_request(5), retry_for=0)
    server.wait_for(lambda s: s.waiting_pulls == 1)
    other.close()
    server.wait_for(lambda s: s.waiting_pulls == 0)
    assert call.exception(timeout=30) is not None


def test_a_stopping_shard_sends_waiting_pulls_away(serve):
    server = serve().prepare().meet(1)
    call = server.client.call_future("Pull", pull_request(5), retry_for=0)
    server.wait_for(lambda s: s.waiting_pulls == 1)
    server.stop_waiting()
    with pytest.raises(rpc.RpcError, match="UNAVAILABLE: the shard is stop"):
        call.result(timeout=30)


def test_recompute_over_the_wire(serve):
    server = serve(staleness_policy="recompute", max_staleness=0).prepare()
    for batch in range(3):
        server.call("Push", push_request(batch, member=2, version=batch))
        refused = server.call("Push", push_request(0, version=batch))
        assert refused.status == ps_pb2.PushReply.REFUSED
        assert refused.staleness == 1
    # Reserved: member 2 waits before its next step.
    waiting = server.client.call_future(
        "Pull", pull_request(3, member=2), retry_for=0
    )
    server.wait_for(lambda s: s.waiting_pulls == 1)
    pulled = server.call("Pull", pull_request(0, recompute=True))
    applied = server.call("Push", push_request(0, version=pulled.version))
    assert applied.status == ps_pb2.PushReply.APPLIED
    assert waiting.result(timeout=30).version == 4
    status = server.status()
    assert (status.refused_pushes, status.staleness_max) == (3, 0)
