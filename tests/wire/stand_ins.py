"""Servicers that answer as a test wants."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable

from elastic_keras.wire import rpc
from elastic_keras.wire.proto import master_pb2, ps_pb2, tensor_pb2

SHARD = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]
MASTER = master_pb2.DESCRIPTOR.services_by_name["Master"]
EMPTY = tensor_pb2.Empty()
PATIENCE = 60.0


def until(holds: Callable[[], bool]) -> None:
    """Returns once a condition holds, fails if it never does."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.002)


class ShardStandIn:
    """Echoes, waits and fails.

    Args:
        unavailable: How many calls of `GetProgress` it refuses first.
    """

    def __init__(self, unavailable: int = 0) -> None:
        self.calls: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.waiting = 0
        self._unavailable = unavailable
        self._go = asyncio.Event()

    async def Join(self, request):  # noqa: N802
        """Checks the job."""
        rpc.check_join(
            request.job_id, request.protocol_version, expected_job_id="job"
        )
        return ps_pb2.ShardJoinReply(version=7)

    async def InitDense(self, request):  # noqa: N802
        """Says how large the request was."""
        size = len(request.dense.data)
        return ps_pb2.InitDenseReply(taken=size > 0)

    async def Pull(self, request):  # noqa: N802
        """Sends `step` bytes."""
        data = bytes(range(256)) * (request.step // 256)
        return ps_pb2.PullReply(dense=tensor_pb2.Tensor(data=data))

    async def Push(self, request):  # noqa: N802
        """Sends the payload's size and sum back."""
        assert rpc.request_bytes() == len(request.SerializeToString())
        data = request.dense.data
        return ps_pb2.PushReply(version=len(data), staleness=sum(data[::997]))

    async def SetMembers(self, request):  # noqa: N802
        """Answers with the wrong message."""
        return ps_pb2.FlushReply(version=request.number)

    async def SetLearningRate(self, request):  # noqa: N802
        """Fails in the way that `optimizer` says."""
        self.calls["SetLearningRate"] += 1
        if request.optimizer == 1:
            raise rpc.WireError("dense: too short. Received: 3 bytes")
        if request.optimizer == 2:
            raise rpc.Refused("FAILED_PRECONDITION", "join first")
        if request.optimizer == 3:
            raise KeyError("missing")
        if request.optimizer == 4:
            raise RuntimeError("ä\n😀" * 100_000)
        if request.optimizer == 5:
            raise rpc.Refused("NO_SUCH_CODE", "")
        return tensor_pb2.Empty()

    async def GetProgress(self, request):  # noqa: N802
        """Is away for its first calls."""
        self.calls["GetProgress"] += 1
        if self.calls["GetProgress"] <= self._unavailable:
            raise rpc.Refused("UNAVAILABLE", "not yet")
        return ps_pb2.ProgressReply(examples=request.task)

    async def Flush(self, request):  # noqa: N802
        """Answers."""
        self.calls["Flush"] += 1
        return ps_pb2.FlushReply(version=5)

    async def Finalize(self, request):  # noqa: N802
        """Ends the waiting of `GetStatus`."""
        self._go.set()
        return tensor_pb2.Empty()

    async def Snapshot(self, request):  # noqa: N802
        """Answers with the name that it was given."""
        return ps_pb2.SnapshotReply(shard=request.folder)

    async def Cut(self, request):  # noqa: N802
        """Answers with an empty message."""
        return ps_pb2.CutReply()

    async def AwaitSnapshot(self, request):  # noqa: N802
        """Answers with the name that it was given."""
        return ps_pb2.SnapshotReply(shard=request.folder)

    async def CommitSnapshot(self, request):  # noqa: N802
        """Answers with an empty message."""
        return tensor_pb2.Empty()

    async def GetStatus(self, request):  # noqa: N802
        """Waits for `Finalize`."""
        self.waiting += 1
        try:
            await self._go.wait()
            remaining = rpc.time_remaining()
            assert remaining is not None
            return ps_pb2.ShardStatus(version=int(remaining))
        finally:
            self.waiting -= 1
            self.ended["GetStatus"] += 1


class MasterStandIn:
    """Streams three messages a call, after `breaks` broken streams."""

    def __init__(self, breaks: int = 0) -> None:
        self.openings = 0
        self._breaks = breaks

    async def WatchJob(  # noqa: N802
        self, request
    ) -> AsyncIterator[master_pb2.JobStatus]:
        """Streams."""
        self.openings += 1
        for step in range(3):
            if step == 2 and self.openings <= self._breaks:
                raise rpc.Refused("UNAVAILABLE", "broken")
            yield master_pb2.JobStatus(steps=step)

    async def _other(self, request):
        raise rpc.Refused("UNIMPLEMENTED", "a stand-in")

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)
        return self._other
