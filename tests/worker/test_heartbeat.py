import threading

from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.heartbeat import Heartbeat
from elastic_keras.worker.stats import WorkerStats

PATIENCE = 30.0


class _Master:
    def __init__(self, error=None):
        self._error = error
        self.requests = []

    def heartbeat(self, request):
        self.requests.append(request)
        if self._error is not None:
            raise self._error
        return master_pb2.HeartbeatReply(chief=len(self.requests) == 2)


def test_it_reports_and_passes_replies_on_until_stopped():
    stats = WorkerStats()
    stats.add_step(8, 0.5)
    master = _Master()
    replies = []
    third = threading.Event()

    def heard(reply):
        replies.append(reply)
        if len(replies) == 3:
            heartbeat.stop()
            third.set()

    heartbeat = Heartbeat(
        master, stats, seconds=0.001, heard=heard, failed=replies.append
    )
    heartbeat.start()
    assert third.wait(PATIENCE)
    heartbeat._thread.join(PATIENCE)
    assert [reply.chief for reply in replies] == [False, True, False]
    assert [request.examples for request in master.requests] == [8, 0, 0]


def test_an_unreachable_master_is_an_error():
    failed = threading.Event()
    errors = []

    def fail(error):
        errors.append(error)
        failed.set()

    error = RpcError("UNAVAILABLE", "gone", "unix:/x", "Heartbeat")
    heartbeat = Heartbeat(
        _Master(error),
        WorkerStats(),
        seconds=0.001,
        heard=lambda reply: None,
        failed=fail,
    )
    heartbeat.start()
    assert failed.wait(PATIENCE)
    assert errors == [error]
