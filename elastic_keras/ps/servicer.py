"""Between messages and a shard: translates, waits, and nothing else."""

import asyncio
import contextlib
import os
import pathlib
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import TypeVar

import numpy as np

from elastic_keras.ps import cut as cuts
from elastic_keras.ps import messages
from elastic_keras.ps.answers import PushResult
from elastic_keras.ps.errors import (
    BadRequestError,
    MemberLeftError,
    NotReadyError,
)
from elastic_keras.ps.recovery import Restored
from elastic_keras.ps.shard import Shard
from elastic_keras.signature import ModelSignature
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import ps_pb2, tensor_pb2
from elastic_keras.wire.shared_memory import OpenSegments

_T = TypeVar("_T")

# A thread costs 0.17 ms of a call (measured on a Unix socket); smaller pieces
# of work than this are done at once in the event loop.
_INLINE_PULL_BYTES = 2 << 10
_INLINE_BYTES = 32 << 10


class ShardServicer:
    """The `ParameterServer` service of one shard.

    Waiting pulls are coroutines and hold no thread; what touches arrays
    runs in a few threads, since kernels release the GIL.

    Args:
        shard: The shard.
        job_id: The job that it belongs to.
        snapshots: Folder of the job's snapshots.
        on_failure: Called in the event loop once an update broke halfway,
            after which the shard is of no more use.
        threads: Threads for arrays.
        restored: What the shard took over when it was started.
    """

    def __init__(
        self,
        shard: Shard,
        *,
        job_id: str,
        snapshots: pathlib.Path,
        on_failure: Callable[[], None],
        threads: int = 4,
        restored: Restored | None = None,
    ) -> None:
        self._restored = restored or Restored()
        self._shard = shard
        self._on_failure = on_failure
        self._job_id = job_id
        self._snapshots = snapshots
        self._loop = asyncio.get_running_loop()
        self._threads = futures.ThreadPoolExecutor(threads, "shard")
        # Set, and replaced, when waiting pulls should ask again.
        self._change = asyncio.Event()
        self._segments = OpenSegments()
        self._cut: cuts.Cut | None = None
        self._cutting = asyncio.Lock()
        self._waiting = 0
        self._stopping = False
        shard.on_change(self._on_change)

    def stop_waiting(self) -> None:
        """Sends waiting pulls away; they come back to the next process."""
        self._stopping = True
        self._wake()

    def close(self) -> None:
        """Ends the threads once they have done what they began."""
        if self._cut is not None:
            self._cut.give_up()
        self._threads.shutdown(wait=True)

    def _on_change(self) -> None:
        # From any thread. Without a waiter the loop need not be woken; one
        # that comes later looks at the shard itself first.
        if self._waiting:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        with _statuses():
            return await self._loop.run_in_executor(self._threads, work)

    def _after_update(self) -> None:
        if self._shard.failure is not None:
            self._on_failure()

    async def _run(self, work: Callable[[], _T], *, small: bool) -> _T:
        # While a push is applied, small work too might have to wait for it.
        if small and not self._shard.is_updating:
            with _statuses():
                return work()
        return await self._in_thread(work)

    async def Join(  # noqa: N802
        self, request: ps_pb2.ShardJoinRequest
    ) -> ps_pb2.ShardJoinReply:
        """Checks a caller's job and model; the first model is adopted."""
        rpc.check_join(
            request.job_id,
            request.protocol_version,
            expected_job_id=self._job_id,
        )
        for name, received, expected in (
            ("num_shards", request.num_shards, self._shard.num_shards),
            ("shard_index", request.shard_index, self._shard.index),
        ):
            if received != expected:
                raise rpc.Refused(
                    "FAILED_PRECONDITION",
                    f"{name}: this is shard {self._shard.index} of "
                    f"{self._shard.num_shards}. Received: {name}={received}",
                )
        if request.signature:
            await self._join_model(request)
        return ps_pb2.ShardJoinReply(
            dense_initialized=self._shard.initialized,
            version=self._shard.version,
            shares_memory=self._shares_memory(request),
        )

    def _shares_memory(self, request: ps_pb2.ShardJoinRequest) -> bool:
        """Whether this process can open the caller's memory."""
        if not request.HasField("region"):
            return False
        try:
            self._segments.array(request.region)
        except rpc.WireError:
            # On another host, say: everything then goes over the socket.
            return False
        return True

    async def _join_model(self, request: ps_pb2.ShardJoinRequest) -> None:
        try:
            offered = ModelSignature.from_json(request.signature)
        except ValueError as error:
            raise rpc.WireError(f"signature: {error}") from error
        served = await self._in_thread(lambda: self._shard.adopt(offered))
        rpc.check_join(
            request.job_id,
            request.protocol_version,
            expected_job_id=self._job_id,
            signature=offered.to_json(),
            expected_signature=served.to_json(),
        )

    async def InitDense(  # noqa: N802
        self, request: ps_pb2.InitDenseRequest
    ) -> ps_pb2.InitDenseReply:
        """Takes the first values of dense parameters, once."""

        def work() -> bool:
            dense = messages.flat(request, "dense")
            return self._shard.init_dense(
                dense, messages.flat(request, "states")
            )

        return ps_pb2.InitDenseReply(taken=await self._in_thread(work))

    async def Pull(  # noqa: N802
        self, request: ps_pb2.PullRequest
    ) -> ps_pb2.PullReply:
        """Reads rows and dense parameters; in training, when granted."""
        if request.mode == ps_pb2.TRAIN:
            await self._grant(request)
        elif request.mode != ps_pb2.READ:
            raise rpc.WireError(f"mode: unknown. Received: mode={request.mode}")
        return await self._run(
            lambda: self._pull(request),
            small=rpc.request_bytes() < _INLINE_PULL_BYTES
            and not request.HasField("region")
            and self._shard.dense_nbytes < _INLINE_BYTES,
        )

    async def _grant(self, request: ps_pb2.PullRequest) -> None:
        """Waits until the pull is granted, as long as the caller does."""
        self._waiting += 1
        try:
            while True:
                # Taken before the question: a change in between is seen.
                change = self._change
                if self._stopping:
                    raise rpc.Refused("UNAVAILABLE", "the shard is stopping")
                with _statuses():
                    granted = self._shard.may_pull(
                        request.member,
                        request.step,
                        recompute=request.recompute,
                    )
                if granted:
                    return
                await change.wait()
        finally:
            self._waiting -= 1

    def _pull(self, request: ps_pb2.PullRequest) -> ps_pb2.PullReply:
        region = self._region(request)
        return messages.pull(request, region, self._shard.pull)

    def _push(self, request: ps_pb2.PushRequest) -> PushResult:
        region = self._region(request)
        return self._shard.push(messages.push(request, region))

    def _region(
        self, request: ps_pb2.PullRequest | ps_pb2.PushRequest
    ) -> np.ndarray | None:
        if not request.HasField("region"):
            return None
        return self._segments.array(request.region)

    async def Push(  # noqa: N802
        self, request: ps_pb2.PushRequest
    ) -> ps_pb2.PushReply:
        """Takes a batch's gradients."""
        try:
            result = await self._run(
                lambda: self._push(request),
                small=rpc.request_bytes() < _INLINE_BYTES
                and not request.HasField("region"),
            )
        finally:
            self._after_update()
        return messages.push_reply(result)

    async def SetMembers(  # noqa: N802
        self, request: ps_pb2.SetMembersRequest
    ) -> tensor_pb2.Empty:
        """Takes the master's list of live members."""
        await self._run(
            lambda: self._shard.set_members(
                request.number, list(request.members)
            ),
            small=True,
        )
        return tensor_pb2.Empty()

    async def SetLearningRate(  # noqa: N802
        self, request: ps_pb2.SetLearningRateRequest
    ) -> tensor_pb2.Empty:
        """Fixes an optimizer's learning rate."""
        await self._in_thread(
            lambda: self._shard.set_learning_rate(
                request.optimizer, request.learning_rate
            )
        )
        return tensor_pb2.Empty()

    async def GetProgress(  # noqa: N802
        self, request: ps_pb2.ProgressRequest
    ) -> ps_pb2.ProgressReply:
        """Tells which batches of a task the ledger holds."""
        with _statuses():
            batches, examples = self._shard.progress(
                request.epoch, request.task
            )
        return ps_pb2.ProgressReply(batches=batches, examples=examples)

    async def Flush(  # noqa: N802
        self, request: tensor_pb2.Empty
    ) -> ps_pb2.FlushReply:
        """Applies what the shard still buffers."""
        try:
            version, iterations = await self._in_thread(self._shard.flush)
        finally:
            self._after_update()
        return ps_pb2.FlushReply(version=version, iterations=iterations)

    async def Finalize(  # noqa: N802
        self, request: tensor_pb2.Empty
    ) -> tensor_pb2.Empty:
        """Ends training."""
        await self._in_thread(self._shard.finalize)
        return tensor_pb2.Empty()

    async def Cut(  # noqa: N802
        self, request: ps_pb2.CutRequest
    ) -> ps_pb2.CutReply:
        """Takes a copy of the shard, which another process writes."""
        cut = await self._cut_to(self._folder(request.folder))
        return messages.cut_reply(cut.moment)

    async def AwaitSnapshot(  # noqa: N802
        self, request: ps_pb2.AwaitSnapshotRequest
    ) -> ps_pb2.SnapshotReply:
        """Waits until a cut has been written."""
        cut, folder = self._cut, self._folder(request.folder)
        if cut is None or cut.folder != folder:
            raise rpc.Refused(
                "NOT_FOUND",
                f"shard {self._shard.index} made no such cut; it may have "
                f"been started since. Received: folder={request.folder!r}",
            )
        return await self._written(cut)

    async def CommitSnapshot(  # noqa: N802
        self, request: ps_pb2.CommitSnapshotRequest
    ) -> tensor_pb2.Empty:
        """Shortens the journal: a snapshot is complete."""
        journal = self._shard.journal
        if journal is not None and request.segment >= 0:
            if request.segment > journal.segment:
                raise rpc.WireError(
                    f"segment: the journal is at {journal.segment}. "
                    f"Received: segment={request.segment}"
                )
            await self._in_thread(lambda: journal.commit(request.segment))
        return tensor_pb2.Empty()

    async def Snapshot(  # noqa: N802
        self, request: ps_pb2.SnapshotRequest
    ) -> ps_pb2.SnapshotReply:
        """Cuts, and waits until the cut has been written."""
        return await self._written(
            await self._cut_to(self._folder(request.folder), again=True)
        )

    def _folder(self, name: str) -> pathlib.Path:
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise rpc.WireError(
                "folder: a name in JOB_DIR/snapshots. "
                f"Received: folder={name!r}"
            )
        return self._snapshots / name

    async def _cut_to(
        self, folder: pathlib.Path, *, again: bool = False
    ) -> cuts.Cut:
        async with self._cutting:
            if self._cut is not None:
                if self._cut.folder == folder and not again:
                    return self._cut
                self._cut.give_up()
            try:
                self._cut = await self._in_thread(
                    lambda: self._shard.cut(folder)
                )
            except OSError as error:
                raise rpc.Refused(
                    "FAILED_PRECONDITION",
                    f"no process for the snapshot: {error.strerror}. "
                    f"Received: {str(folder)!r}",
                ) from error
            return self._cut

    async def _written(self, cut: cuts.Cut) -> ps_pb2.SnapshotReply:
        try:
            # A thread of its own: the wait must not hold one of the few.
            entry = await asyncio.to_thread(cut.entry)
        except cuts.CutError as error:
            raise rpc.Refused("FAILED_PRECONDITION", str(error)) from error
        return ps_pb2.SnapshotReply(
            shard=entry.to_json(), signature=cut.signature.to_json()
        )

    async def GetStatus(  # noqa: N802
        self, request: tensor_pb2.Empty
    ) -> ps_pb2.ShardStatus:
        """Returns the shard's state in numbers."""
        report = await self._in_thread(self._shard.report)
        message = messages.status(report, self._shard.index, self._waiting)
        journal = self._shard.journal
        if journal is not None:
            message.journal_bytes = journal.nbytes
            message.journal_error = journal.error
        message.replayed_pushes = self._restored.pushes
        message.restore_loss = self._restored.loss
        return message


@contextlib.contextmanager
def _statuses() -> Iterator[None]:
    """Turns the shard's errors into the wire's."""
    try:
        yield
    except BadRequestError as error:
        raise rpc.WireError(str(error)) from error
    except NotReadyError as error:
        raise rpc.Refused("FAILED_PRECONDITION", str(error)) from error
    except MemberLeftError as error:
        raise rpc.Refused("ABORTED", str(error)) from error
