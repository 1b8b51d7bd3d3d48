"""Pulls and pushes as messages, a slice for each shard."""

import math
from collections.abc import Sequence

import numpy as np

from elastic_keras.config import WireOptions
from elastic_keras.signature import ModelSignature
from elastic_keras.wire import compression, tensors
from elastic_keras.wire.proto import ps_pb2, tensor_pb2
from elastic_keras.wire.shared_memory import Region, Writer, room
from elastic_keras.worker import aligned
from elastic_keras.worker.dense_cache import DenseCache
from elastic_keras.worker.grouping import GroupedIds
from elastic_keras.worker.shards import Reply
from elastic_keras.worker.values import Push

_ITEM_BYTES = {
    tensor_pb2.FLOAT32: 4,
    tensor_pb2.FLOAT16: 2,
    tensor_pb2.BFLOAT16: 2,
    tensor_pb2.INT64: 8,
}


class Requests:
    """Makes the shards' requests and reads their rows.

    Args:
        signature: The model.
        wire: How bytes travel.
        cache: Where dense parameters are split.
    """

    def __init__(
        self, signature: ModelSignature, wire: WireOptions, cache: DenseCache
    ) -> None:
        self._tables = signature.tables
        self._wire = wire
        self._cache = cache
        self._wire_dtype = tensors.wire_dtype_number(wire.wire_dtype)
        self._compression = compression.by_name(wire.wire_compression)

    def pull(
        self,
        shard: int,
        ids: Sequence[GroupedIds],
        region: Region | None = None,
        *,
        mode: int,
        member: int,
        step: int,
        recompute: bool,
        dense_version: int,
    ) -> ps_pb2.PullRequest:
        """Returns one shard's slice of a pull; see `PsClient.pull`.

        With a `region`, ids and reply travel in it; see `shared_bytes`.
        """
        request = ps_pb2.PullRequest(
            mode=mode,  # type: ignore[arg-type]
            member=member,
            step=step,
            dense_version=dense_version,
            wire_dtype=self._wire_dtype,  # type: ignore[arg-type]
            compression=self._compression,  # type: ignore[arg-type]
            recompute=recompute,
        )
        writer = _writer(request, region)
        for table, grouped in enumerate(ids):
            ours = grouped.ids[grouped.of_shard(shard)]
            entry = request.tables.add(table=table)
            tensors.encode_into(entry.ids, ours, region=writer)
        if writer is not None:
            request.reply_offset = writer.end
        return request

    def shared_bytes(self, shard: int, ids: Sequence[GroupedIds]) -> int:
        """Returns the size of a region for a pull, or a push, of ids."""
        count = sum(_count(grouped, shard) for grouped in ids)
        return room(
            self.reply_bytes(shard, ids) + 8 * count, arrays=2 * len(ids) + 2
        )

    def reply_bytes(self, shard: int, ids: Sequence[GroupedIds]) -> int:
        """Returns about the size of the reply to a pull."""
        size = self._cache.dense.sizes[shard] + self._cache.states.sizes[shard]
        for spec, grouped in zip(self._tables, ids, strict=True):
            size += _count(grouped, shard) * spec.dim
        return 4 * size

    def rows(
        self, ids: Sequence[GroupedIds], replies: Sequence[Reply]
    ) -> list[np.ndarray]:
        """Returns, per table, the rows of all shards' replies.

        Raises:
            WireError: A reply is not what was asked for.
        """
        rows = []
        for table, (spec, grouped) in enumerate(
            zip(self._tables, ids, strict=True)
        ):
            parts = []
            for shard, reply in enumerate(replies):
                ours = grouped.of_shard(shard)
                parts.append(
                    tensors.decode(
                        reply.message.rows[table],
                        name=f"rows of table {spec.name}",
                        dtype=np.float32,
                        shape=(ours.stop - ours.start, spec.dim),
                        region=reply.region,
                    )
                )
            if len(parts) == 1:
                rows.append(parts[0])
            else:
                out = aligned.empty((len(grouped.ids), spec.dim))
                rows.append(np.concatenate(parts, out=out))
        return rows

    def push(
        self, push: Push, shard: int, region: Region | None = None
    ) -> ps_pb2.PushRequest:
        """Returns one shard's slice of a push.

        With a `region`, ids and gradients travel in it; see `shared_bytes`.
        """
        request = _header(push, shard)
        gradients = push.gradients
        if gradients.nonfinite:
            return request
        writer = _writer(request, region)
        dense = self._cache.dense.part(gradients.dense, shard)
        if len(dense):
            self._encode(request.dense, dense, writer)
        states = self._cache.states.part(gradients.state_deltas, shard)
        if len(states):
            # Changes too small for half precision add up.
            tensors.encode_into(request.state_deltas, states, region=writer)
        for table, grouped in enumerate(push.ids):
            ours = grouped.of_shard(shard)
            entry = request.tables.add(table=table)
            tensors.encode_into(entry.ids, grouped.ids[ours], region=writer)
            self._encode(entry.gradients, gradients.rows[table][ours], writer)
        return request

    def _encode(
        self,
        tensor: tensor_pb2.Tensor,
        array: np.ndarray,
        region: Writer | None,
    ) -> None:
        tensors.encode_into(
            tensor,
            array,
            wire_dtype=self._wire.wire_dtype,
            compression=self._wire.wire_compression,
            region=region,
        )


def _count(grouped: GroupedIds, shard: int) -> int:
    ours = grouped.of_shard(shard)
    return ours.stop - ours.start


def _writer(
    request: ps_pb2.PullRequest | ps_pb2.PushRequest, region: Region | None
) -> Writer | None:
    if region is None:
        return None
    request.region.CopyFrom(region.message)
    return Writer(region.array)


def _header(push: Push, shard: int) -> ps_pb2.PushRequest:
    epoch, task, batch = push.key
    return ps_pb2.PushRequest(
        key=ps_pb2.BatchKey(epoch=epoch, task=task, batch=batch),
        examples=push.examples,
        member=push.member,
        step=push.step,
        pull_version=push.versions[shard],
        nonfinite=push.gradients.nonfinite,
    )


def pull_bytes(reply: ps_pb2.PullReply) -> int:
    """Returns the bytes of parameters in a reply, as they travelled."""
    size = _payload(reply.dense) + _payload(reply.states)
    return size + sum(map(_payload, reply.rows))


def push_bytes(request: ps_pb2.PushRequest) -> int:
    """Returns the bytes of ids and gradients in a push, as they travel."""
    size = _payload(request.dense) + _payload(request.state_deltas)
    for entry in request.tables:
        size += _payload(entry.ids) + _payload(entry.gradients)
    return size


def _payload(tensor: tensor_pb2.Tensor) -> int:
    # A look at `data` would copy it.
    if tensor.block_bytes:
        return sum(tensor.block_bytes)
    return math.prod(tensor.shape) * _ITEM_BYTES.get(tensor.dtype, 0)
