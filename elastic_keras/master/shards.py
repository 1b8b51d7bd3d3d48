"""The master's calls to the shards."""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

from google.protobuf.message import Message

from elastic_keras.config import JobConfig
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import ps_pb2, tensor_pb2

# Whatever the size: a disk writes 100 GB in this time.
_SNAPSHOT_SECONDS = 3600.0
# Nobody trains meanwhile. A shard that is started again cuts once more.
_CUT_PATIENCE = 60.0

_SERVICE = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]


@dataclasses.dataclass(frozen=True)
class Cut:
    """A shard at the moment of a cut.

    Args:
        batches: What its ledger held.
        examples: Examples in these.
        ledger_crc32c: Of the ledger's content.
        segment: Where its journal goes on; -1 without a journal.
    """

    batches: int = 0
    examples: int = 0
    ledger_crc32c: int = 0
    segment: int = -1


class ShardCalls(Protocol):
    """What the master asks of the shards."""

    @property
    def count(self) -> int:
        """Number of shards."""

    async def join(self) -> None:
        """Checks that every shard belongs to this job."""

    async def set_members(
        self, shard: int, number: int, members: Sequence[int]
    ) -> None:
        """Tells one shard who trains; tries until it has answered."""

    async def flush(self) -> int:
        """Applies what shards buffer; returns the optimizer's iterations."""

    async def finalize(self) -> None:
        """Tells every shard that training is over."""

    async def cut(self, folder: str) -> list[Cut]:
        """Has every shard take a copy of what it holds.

        Args:
            folder: Name of a folder in JOB_DIR/snapshots, for its files.
        """

    async def written(self, folder: str) -> list[ps_pb2.SnapshotReply]:
        """Waits until every shard has written what it cut.

        Args:
            folder: The folder of the cut.
        """

    async def commit(self, segments: Sequence[int]) -> None:
        """Tells every shard that the snapshot is complete.

        Args:
            segments: `Cut.segment` of each shard.
        """

    async def progress(self, epoch: int, task: int) -> list[bytes]:
        """Returns each shard's bitmap of the batches it has of a task."""

    async def status(
        self, *, patience: float | None = None
    ) -> list[ps_pb2.ShardStatus]:
        """Returns the status of each shard.

        Args:
            patience: Seconds to try; `None` tries until all answer.
        """


class Shards:
    """The shards of a job over gRPC.

    Args:
        config: The job, with the shards' addresses.
        token: The job's token.
    """

    def __init__(self, config: JobConfig, token: str) -> None:
        self._job_id = config.job_id
        tls = rpc.read_tls(config.wire)
        self._clients = [
            rpc.Client(
                address,
                _SERVICE,
                token=token,
                tls=tls,
                timeout=config.wire.rpc_timeout_secs,
                max_message_bytes=config.wire.max_message_mb << 20,
            )
            for address in config.ps_addresses
        ]

    @property
    def count(self) -> int:
        """Number of shards."""
        return len(self._clients)

    async def join(self) -> None:
        """Checks that every shard belongs to this job.

        Raises:
            RpcError: One does not.
        """
        await asyncio.gather(
            *(
                _call(
                    client,
                    "Join",
                    ps_pb2.ShardJoinRequest(
                        job_id=self._job_id,
                        protocol_version=rpc.PROTOCOL_VERSION,
                        num_shards=self.count,
                        shard_index=shard,
                    ),
                    None,
                )
                for shard, client in enumerate(self._clients)
            )
        )

    async def set_members(
        self, shard: int, number: int, members: Sequence[int]
    ) -> None:
        """Tells one shard who trains; tries until it has answered."""
        await _call(
            self._clients[shard],
            "SetMembers",
            ps_pb2.SetMembersRequest(number=number, members=members),
            None,
        )

    async def flush(self) -> int:
        """Applies what shards buffer; returns the optimizer's iterations."""
        replies = await self._all("Flush", tensor_pb2.Empty(), None)
        return max((reply.iterations for reply in replies), default=0)

    async def finalize(self) -> None:
        """Tells every shard that training is over."""
        await self._all("Finalize", tensor_pb2.Empty(), None)

    async def cut(self, folder: str) -> list[Cut]:
        """Has every shard take a copy of what it holds.

        Args:
            folder: Name of a folder in JOB_DIR/snapshots, for its files.

        Raises:
            RpcError: A shard cannot.
        """
        request = ps_pb2.CutRequest(folder=folder)
        replies = await self._all("Cut", request, _CUT_PATIENCE)
        return [
            Cut(
                batches=reply.batches,
                examples=reply.examples,
                ledger_crc32c=reply.ledger_crc32c,
                segment=reply.segment,
            )
            for reply in replies
        ]

    async def written(self, folder: str) -> list[ps_pb2.SnapshotReply]:
        """Waits until every shard has written what it cut.

        Args:
            folder: The folder of the cut.

        Raises:
            RpcError: A shard could not write.
        """
        request = ps_pb2.AwaitSnapshotRequest(folder=folder)
        return await asyncio.gather(
            *(
                _call(
                    client,
                    "AwaitSnapshot",
                    request,
                    _CUT_PATIENCE,
                    _SNAPSHOT_SECONDS,
                )
                for client in self._clients
            )
        )

    async def commit(self, segments: Sequence[int]) -> None:
        """Tells every shard that the snapshot is complete.

        Args:
            segments: `Cut.segment` of each shard.

        Raises:
            RpcError: A shard did not hear of it, which harms nothing.
        """
        await asyncio.gather(
            *(
                _call(
                    client,
                    "CommitSnapshot",
                    ps_pb2.CommitSnapshotRequest(segment=segment),
                    _CUT_PATIENCE,
                )
                for client, segment in zip(self._clients, segments, strict=True)
            )
        )

    async def progress(self, epoch: int, task: int) -> list[bytes]:
        """Returns each shard's bitmap of the batches it has of a task.

        Args:
            epoch: The task's epoch.
            task: The task.
        """
        request = ps_pb2.ProgressRequest(epoch=epoch, task=task)
        replies = await self._all("GetProgress", request, None)
        return [reply.batches for reply in replies]

    async def status(
        self, *, patience: float | None = None
    ) -> list[ps_pb2.ShardStatus]:
        """Returns the status of each shard.

        Args:
            patience: Seconds to try; `None` tries until all answer.

        Raises:
            RpcError: A shard did not answer in that time.
        """
        return await self._all("GetStatus", tensor_pb2.Empty(), patience)

    async def close(self) -> None:
        """Ends all calls and the connections."""
        for client in self._clients:
            # gRPC waits there until it has cancelled what is under way.
            await asyncio.to_thread(client.close)

    async def _all(
        self, method: str, request: Message, patience: float | None
    ) -> list[Any]:
        return await asyncio.gather(
            *(
                _call(client, method, request, patience)
                for client in self._clients
            )
        )


async def _call(
    client: rpc.Client,
    method: str,
    request: Message,
    patience: float | None,
    timeout: float | None = None,
) -> Any:
    """Calls one shard; cancelling this ends the call."""
    return await asyncio.wrap_future(
        client.call_future(method, request, retry_for=patience, timeout=timeout)
    )
