"""A worker's connection to all shards of a job."""

import functools
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from elastic_keras.config import ConfigError, WireOptions
from elastic_keras.signature import ModelSignature
from elastic_keras.wire import rpc, tensors
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.pieces import LARGE_BYTES
from elastic_keras.wire.proto import ps_pb2
from elastic_keras.worker import requests as messages
from elastic_keras.worker.dense_cache import DenseCache
from elastic_keras.worker.grouping import GroupedIds
from elastic_keras.worker.shards import Call, Shards
from elastic_keras.worker.stats import WorkerStats
from elastic_keras.worker.values import Pulled, Push

# A pull may wait this long for the slowest worker, and any call for a shard
# that is started again, in seconds.
_LONGEST_CALL = 3600.0


class PsClient:
    """Calls all shards of a job side by side; any thread may use it.

    Args:
        addresses: The shards' addresses, by index.
        signature: The model.
        job_id: The job's identity, for the handshake.
        wire: How bytes travel.
        token: The job's token.
        stats: Where latencies and bytes are counted.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        signature: ModelSignature,
        *,
        job_id: str,
        wire: WireOptions,
        token: str = "",
        stats: WorkerStats | None = None,
    ) -> None:
        service = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]
        self.num_shards = len(addresses)
        self._signature = signature
        self._job_id = job_id
        self._stats = stats or WorkerStats()
        clients = [
            rpc.Client(
                address,
                service,
                token=token,
                timeout=wire.rpc_timeout_secs,
                max_message_bytes=wire.max_message_mb << 20,
            )
            for address in addresses
        ]
        self._shards = Shards(clients, wire.shared_memory)
        self._cache = DenseCache(signature, self.num_shards)
        self._requests = messages.Requests(signature, wire, self._cache)

    def join(self) -> None:
        """Shakes hands with every shard.

        Raises:
            ConfigError: A shard is of another job, protocol or model.
        """
        text = self._signature.to_json()
        requests = [
            ps_pb2.ShardJoinRequest(
                job_id=self._job_id,
                protocol_version=rpc.PROTOCOL_VERSION,
                signature=text,
                num_shards=self.num_shards,
                shard_index=shard,
            )
            for shard in range(self.num_shards)
        ]
        probes = [self._shards.probe(i) for i in range(self.num_shards)]
        for request, probe in zip(requests, probes, strict=True):
            if probe is not None:
                request.region.CopyFrom(probe.message)
        try:
            replies = self._all("Join", requests)
        except RpcError as error:
            if error.code in ("FAILED_PRECONDITION", "INVALID_ARGUMENT"):
                raise ConfigError(error.message) from error
            raise
        for shard, reply in enumerate(replies):
            self._shards.share(shard, reply.shares_memory)

    def init_dense(self, dense: np.ndarray, states: np.ndarray) -> None:
        """Offers first values; each shard keeps the first offer it gets.

        Args:
            dense: All dense parameters, flat in signature order.
            states: All shared states, flat in signature order.
        """
        requests = []
        for dense_part, states_part in zip(
            self._cache.dense.split(dense),
            self._cache.states.split(states),
            strict=True,
        ):
            request = ps_pb2.InitDenseRequest()
            tensors.encode_into(request.dense, dense_part)
            tensors.encode_into(request.states, states_part)
            requests.append(request)
        self._all("InitDense", requests)

    def pull(
        self,
        ids: Sequence[GroupedIds],
        *,
        mode: int = ps_pb2.READ,
        member: int = 0,
        step: int = 0,
        recompute: Sequence[int] | None = None,
    ) -> Pulled:
        """Pulls the rows of all tables and the newest dense parameters.

        Args:
            ids: Per table, the ids to read.
            mode: `TRAIN` waits for the staleness bound, `READ` never waits.
            member: For TRAIN: whose clock counts.
            step: For TRAIN: the member's step.
            recompute: Shards that refused a push of this batch; the others
                are only read then.

        Returns:
            The values, each shard's at its own version.
        """
        start = time.perf_counter()
        held = self._cache.held()
        calls = [
            Call(
                shard,
                functools.partial(
                    self._requests.pull,
                    shard,
                    ids,
                    mode=mode
                    if recompute is None or shard in recompute
                    else ps_pb2.READ,
                    member=member,
                    step=step,
                    recompute=recompute is not None and shard in recompute,
                    dense_version=held[shard][0],
                ),
                shared_bytes=self._requests.shared_bytes(shard, ids),
                large=self._requests.reply_bytes(shard, ids) > LARGE_BYTES,
            )
            for shard in range(self.num_shards)
        ]
        replies = self._shards.call("Pull", calls, retry_for=_LONGEST_CALL)
        pulled = Pulled(
            rows=self._requests.rows(ids, replies),
            versions=tuple(reply.message.version for reply in replies),
            dense=self._cache.join(replies, held),
            iterations=min(reply.message.iterations for reply in replies),
        )
        self._stats.add_pull(
            time.perf_counter() - start,
            sum(messages.pull_bytes(reply.message) for reply in replies),
        )
        return pulled

    def push(
        self, push: Push, shards: Sequence[int] | None = None
    ) -> list[ps_pb2.PushReply]:
        """Pushes a batch's gradients, each shard its slice.

        Args:
            push: The batch.
            shards: Only to these shards; `None` means all.

        Returns:
            The replies of `shards`, in their order.
        """
        start = time.perf_counter()
        shards = range(self.num_shards) if shards is None else shards
        calls = [
            Call(
                shard,
                functools.partial(self._requests.push, push, shard),
                shared_bytes=self._requests.shared_bytes(shard, push.ids),
            )
            for shard in shards
        ]
        replies = self._shards.call("Push", calls, retry_for=_LONGEST_CALL)
        self._stats.add_push(
            time.perf_counter() - start,
            sum(messages.push_bytes(reply.request) for reply in replies),
        )
        return [reply.message for reply in replies]

    def progress(self, epoch: int, task: int) -> frozenset[int]:
        """Returns the batches of a task that every shard's ledger holds."""
        request = ps_pb2.ProgressRequest(epoch=epoch, task=task)
        replies = self._all("GetProgress", [request] * self.num_shards)
        return frozenset.intersection(
            *(_positions(reply.batches) for reply in replies)
        )

    def set_learning_rate(self, optimizer: int, learning_rate: float) -> None:
        """Sets an optimizer's learning rate on every shard.

        Args:
            optimizer: Its position in the signature.
            learning_rate: The new rate.
        """
        request = ps_pb2.SetLearningRateRequest(
            optimizer=optimizer, learning_rate=learning_rate
        )
        self._all("SetLearningRate", [request] * self.num_shards)

    def close(self) -> None:
        """Closes the connections; calls under way fail."""
        self._shards.close()

    def _all(self, method: str, requests: Sequence[Any]) -> list[Any]:
        calls = [
            Call(shard, lambda _, request=request: request)  # type: ignore[misc]
            for shard, request in enumerate(requests)
        ]
        replies = self._shards.call(method, calls, retry_for=_LONGEST_CALL)
        return [reply.message for reply in replies]


def _positions(bitmap: bytes) -> frozenset[int]:
    """Returns the positions of the bits that are set, lowest first."""
    bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), bitorder="little")
    return frozenset(int(index) for index in np.flatnonzero(bits))
