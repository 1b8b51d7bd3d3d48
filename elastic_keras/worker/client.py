"""A worker's connection to all shards of a job."""

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

import numpy as np

from elastic_keras import routing
from elastic_keras.config import ConfigError, WireOptions
from elastic_keras.signature import ModelSignature
from elastic_keras.wire import rpc, tensors
from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import ps_pb2, tensor_pb2
from elastic_keras.worker.grouping import GroupedIds
from elastic_keras.worker.stats import WorkerStats

# Replies above this travel in pieces.
_LARGE_BYTES = 4 << 20

_Held = tuple[int, np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Pulled:
    """What one pull brought.

    Args:
        rows: Per table float32 rows in the order of its `GroupedIds`, shape
            (n, dim).
        versions: Per shard, the version that was read.
        dense: All dense parameters in signature order, flat float32.
        states: All shared states in signature order, flat float32.
        dense_versions: Per shard, the version of `dense` and `states`.
        iterations: Optimizer updates applied, the least over the shards.
    """

    rows: list[np.ndarray]
    versions: tuple[int, ...]
    dense: np.ndarray
    states: np.ndarray
    dense_versions: tuple[int, ...]
    iterations: int


@dataclasses.dataclass(frozen=True)
class Gradients:
    """What one step gives to a push.

    Args:
        key: (epoch, task, batch).
        examples: Examples in the batch.
        member: Whose clock the step counts on.
        step: The member's step.
        versions: Per shard, the version that the gradients come from.
        ids: Per table, the ids of the batch.
        rows: Per table float32 gradients, shape (n, dim).
        dense: Flat float32 in signature order.
        state_deltas: Flat float32 in signature order.
        nonfinite: A gradient is NaN or Inf: none of them is sent.
    """

    key: tuple[int, int, int]
    examples: int
    member: int
    step: int
    versions: tuple[int, ...]
    ids: Sequence[GroupedIds]
    rows: Sequence[np.ndarray]
    dense: np.ndarray
    state_deltas: np.ndarray
    nonfinite: bool = False


@dataclasses.dataclass(frozen=True)
class Progress:
    """Which batches of a task the shards have.

    Args:
        everywhere: Batches that every shard's ledger holds.
    """

    everywhere: frozenset[int]


class PsClient:
    """Calls all shards of a job side by side.

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
        self._wire = wire
        self._stats = stats or WorkerStats()
        self._clients = [
            rpc.Client(
                address,
                service,
                token=token,
                timeout=wire.rpc_timeout_secs,
                max_message_bytes=wire.max_message_mb << 20,
            )
            for address in addresses
        ]
        placement = routing.place(signature, self.num_shards)
        self._dense = routing.FlatPlan([shard.dense for shard in placement])
        self._states = routing.FlatPlan([shard.states for shard in placement])
        self._dims = [spec.dim for spec in signature.tables]
        self._lock = threading.Lock()
        nothing = np.empty(0, np.float32)
        # Per shard: the newest dense buffer seen, with its version.
        self._held: list[_Held] = [(-1, nothing, nothing)] * self.num_shards
        self._joined: tuple[tuple[int, ...], np.ndarray, np.ndarray] = (
            (),
            nothing,
            nothing,
        )

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
        try:
            self._all("Join", requests)
        except RpcError as error:
            if error.code in ("FAILED_PRECONDITION", "INVALID_ARGUMENT"):
                raise ConfigError(error.message) from error
            raise

    def init_dense(self, dense: np.ndarray, states: np.ndarray) -> None:
        """Offers first values; each shard keeps the first offer it gets.

        Args:
            dense: All dense parameters, flat in signature order.
            states: All shared states, flat in signature order.
        """
        self._all(
            "InitDense",
            [
                ps_pb2.InitDenseRequest(
                    dense=tensors.encode(dense_part),
                    states=tensors.encode(states_part),
                )
                for dense_part, states_part in zip(
                    self._dense.split(dense),
                    self._states.split(states),
                    strict=True,
                )
            ],
        )

    def pull(
        self,
        ids: Sequence[GroupedIds],
        *,
        mode: int = ps_pb2.READ,
        member: int = 0,
        step: int = 0,
        recompute: Sequence[int] = (),
    ) -> Pulled:
        """Pulls the rows of all tables and the newest dense parameters.

        Args:
            ids: Per table, the ids to read.
            mode: `TRAIN` waits for the staleness bound, `READ` never waits.
            member: For TRAIN: whose clock counts.
            step: For TRAIN: the member's step.
            recompute: Shards that refused a push of this batch.

        Returns:
            The values; with several shards each is read at its own version.
        """
        start = time.perf_counter()
        held = list(self._held)
        requests = [
            self._pull_request(
                shard, ids, mode, member, step, shard in recompute, held
            )
            for shard in range(self.num_shards)
        ]
        large = [
            self._reply_bytes(request, shard) > _LARGE_BYTES
            for shard, request in enumerate(requests)
        ]
        replies = self._all("Pull", requests, large)
        pulled = self._join(ids, replies, held)
        self._stats.add_pull(
            time.perf_counter() - start, sum(map(_pull_bytes, replies))
        )
        return pulled

    def push(
        self, gradients: Gradients, shards: Sequence[int] | None = None
    ) -> list[ps_pb2.PushReply]:
        """Pushes a batch's gradients, each shard its slice.

        Args:
            gradients: The batch.
            shards: Only to these shards; `None` means all.

        Returns:
            The replies of `shards`, in their order.
        """
        start = time.perf_counter()
        shards = range(self.num_shards) if shards is None else shards
        requests = self._push_requests(gradients, shards)
        replies = self._each(
            "Push", list(zip(shards, requests, strict=True))
        )
        self._stats.add_push(
            time.perf_counter() - start, sum(map(_push_bytes, requests))
        )
        return replies

    def progress(self, epoch: int, task: int) -> Progress:
        """Asks the shards which batches of a task they have."""
        request = ps_pb2.ProgressRequest(epoch=epoch, task=task)
        replies = self._all("GetProgress", [request] * self.num_shards)
        held = [_bits(reply.batches) for reply in replies]
        return Progress(frozenset.intersection(*held))

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
        for client in self._clients:
            client.close()

    def _pull_request(
        self,
        shard: int,
        ids: Sequence[GroupedIds],
        mode: int,
        member: int,
        step: int,
        recompute: bool,
        held: list[_Held],
    ) -> ps_pb2.PullRequest:
        request = ps_pb2.PullRequest(
            mode=mode,  # type: ignore[arg-type]
            member=member,
            step=step,
            dense_version=held[shard][0],
            wire_dtype=_DTYPES[self._wire.wire_dtype],
            compression=_COMPRESSIONS[self._wire.wire_compression],
            recompute=recompute,
        )
        for table, grouped in enumerate(ids):
            ours = grouped.ids[grouped.of_shard(shard)]
            request.tables.add(table=table, ids=tensors.encode(ours))
        return request

    def _reply_bytes(self, request: ps_pb2.PullRequest, shard: int) -> int:
        size = 4 * self._dense.sizes[shard]
        for entry in request.tables:
            size += entry.ids.shape[0] * self._dims[entry.table] * 4
        return size

    def _join(
        self,
        ids: Sequence[GroupedIds],
        replies: list[ps_pb2.PullReply],
        held: list[_Held],
    ) -> Pulled:
        rows = [
            self._join_rows(table, grouped, replies)
            for table, grouped in enumerate(ids)
        ]
        dense_versions, dense, states = self._join_dense(replies, held)
        return Pulled(
            rows=rows,
            versions=tuple(reply.version for reply in replies),
            dense=dense,
            states=states,
            dense_versions=dense_versions,
            iterations=min(reply.iterations for reply in replies),
        )

    def _join_rows(
        self, table: int, grouped: GroupedIds, replies: list[ps_pb2.PullReply]
    ) -> np.ndarray:
        dim = self._dims[table]
        name = f"rows of table {self._signature.tables[table].name}"
        parts = []
        for shard, reply in enumerate(replies):
            count = grouped.bounds[shard + 1] - grouped.bounds[shard]
            parts.append(
                tensors.decode(
                    reply.rows[table],
                    name=name,
                    dtype=np.float32,
                    shape=(count, dim),
                )
            )
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _join_dense(
        self, replies: list[ps_pb2.PullReply], held: list[_Held]
    ) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
        newest = [
            self._shard_dense(shard, reply, held[shard])
            for shard, reply in enumerate(replies)
        ]
        versions = tuple(version for version, _, _ in newest)
        with self._lock:
            for shard, entry in enumerate(newest):
                # A slower, older answer must not hide a newer one.
                if entry[0] > self._held[shard][0]:
                    self._held[shard] = entry
            joined = self._joined
        if joined[0] == versions:
            return joined
        joined = (
            versions,
            self._dense.join([dense for _, dense, _ in newest]),
            self._states.join([states for _, _, states in newest]),
        )
        with self._lock:
            self._joined = joined
        return joined

    def _shard_dense(
        self, shard: int, reply: ps_pb2.PullReply, held: _Held
    ) -> _Held:
        if not reply.HasField("dense"):
            return held
        dense = tensors.decode(
            reply.dense,
            name=f"dense of shard {shard}",
            dtype=np.float32,
            shape=(self._dense.sizes[shard],),
        )
        states = np.empty(0, np.float32)
        if reply.HasField("states"):
            states = tensors.decode(
                reply.states,
                name=f"states of shard {shard}",
                dtype=np.float32,
                shape=(self._states.sizes[shard],),
            )
        return reply.dense_version, dense, states

    def _push_requests(
        self, gradients: Gradients, shards: Sequence[int]
    ) -> list[ps_pb2.PushRequest]:
        if gradients.nonfinite:
            return [self._push_header(gradients, shard) for shard in shards]
        dense = self._dense.split(gradients.dense)
        states = self._states.split(gradients.state_deltas)
        requests = []
        for shard in shards:
            request = self._push_header(gradients, shard)
            if len(dense[shard]):
                request.dense.CopyFrom(self._encode(dense[shard]))
            if len(states[shard]):
                request.state_deltas.CopyFrom(tensors.encode(states[shard]))
            for table, grouped in enumerate(gradients.ids):
                ours = grouped.of_shard(shard)
                request.tables.add(
                    table=table,
                    ids=tensors.encode(grouped.ids[ours]),
                    gradients=self._encode(gradients.rows[table][ours]),
                )
            requests.append(request)
        return requests

    def _push_header(
        self, gradients: Gradients, shard: int
    ) -> ps_pb2.PushRequest:
        epoch, task, batch = gradients.key
        return ps_pb2.PushRequest(
            key=ps_pb2.BatchKey(epoch=epoch, task=task, batch=batch),
            examples=gradients.examples,
            member=gradients.member,
            step=gradients.step,
            pull_version=gradients.versions[shard],
            nonfinite=gradients.nonfinite,
        )

    def _encode(self, array: np.ndarray) -> tensor_pb2.Tensor:
        return tensors.encode(
            array,
            wire_dtype=self._wire.wire_dtype,
            compression=self._wire.wire_compression,
        )

    def _all(
        self,
        method: str,
        requests: Sequence[Any],
        large: Sequence[bool] | None = None,
    ) -> list[Any]:
        return self._each(method, list(enumerate(requests)), large)

    def _each(
        self,
        method: str,
        requests: list[tuple[int, Any]],
        large: Sequence[bool] | None = None,
    ) -> list[Any]:
        flags = large or [False] * len(requests)
        if len(requests) == 1:
            shard, request = requests[0]
            return [
                self._clients[shard].call(method, request, large=flags[0])
            ]
        calls = [
            self._clients[shard].call_future(method, request, large=flag)
            for (shard, request), flag in zip(requests, flags, strict=True)
        ]
        return _results(calls)


def _results(calls: list["futures.Future[Any]"]) -> list[Any]:
    """Waits for all calls, so that no call outlives a raised error."""
    futures.wait(calls)
    return [call.result() for call in calls]


def _bits(packed: bytes) -> frozenset[int]:
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), bitorder="little")
    return frozenset(int(index) for index in np.flatnonzero(bits))


def _pull_bytes(reply: ps_pb2.PullReply) -> int:
    size = len(reply.dense.data) + len(reply.states.data)
    return size + sum(len(rows.data) for rows in reply.rows)


def _push_bytes(request: ps_pb2.PushRequest) -> int:
    size = len(request.dense.data) + len(request.state_deltas.data)
    for entry in request.tables:
        size += len(entry.ids.data) + len(entry.gradients.data)
    return size


_DTYPES = {
    "float32": tensor_pb2.FLOAT32,
    "float16": tensor_pb2.FLOAT16,
    "bfloat16": tensor_pb2.BFLOAT16,
}
_COMPRESSIONS = {
    "none": tensor_pb2.NONE,
    "lz4": tensor_pb2.LZ4,
    "snappy": tensor_pb2.SNAPPY,
    "zstd": tensor_pb2.ZSTD,
}
