"""Pulls and pushes as messages, a slice for each shard."""

import math
from collections.abc import Sequence

import numpy as np

from elastic_keras.config import WireOptions
from elastic_keras.signature import ModelSignature
from elastic_keras.wire import compression, tensors
from elastic_keras.wire.proto import ps_pb2, tensor_pb2
from elastic_keras.worker.dense_cache import DenseCache
from elastic_keras.worker.grouping import GroupedIds
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
        *,
        mode: int,
        member: int,
        step: int,
        recompute: bool,
        dense_version: int,
    ) -> ps_pb2.PullRequest:
        """Returns one shard's slice of a pull; see `PsClient.pull`."""
        request = ps_pb2.PullRequest(
            mode=mode,  # type: ignore[arg-type]
            member=member,
            step=step,
            dense_version=dense_version,
            wire_dtype=self._wire_dtype,  # type: ignore[arg-type]
            compression=self._compression,  # type: ignore[arg-type]
            recompute=recompute,
        )
        for table, grouped in enumerate(ids):
            ours = grouped.ids[grouped.of_shard(shard)]
            tensors.encode_into(request.tables.add(table=table).ids, ours)
        return request

    def reply_bytes(self, shard: int, ids: Sequence[GroupedIds]) -> int:
        """Returns about the size of the reply to a pull."""
        size = 4 * self._cache.dense.sizes[shard]
        for spec, grouped in zip(self._tables, ids, strict=True):
            ours = grouped.of_shard(shard)
            size += (ours.stop - ours.start) * spec.dim * 4
        return size

    def rows(
        self, ids: Sequence[GroupedIds], replies: Sequence[ps_pb2.PullReply]
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
                        reply.rows[table],
                        name=f"rows of table {spec.name}",
                        dtype=np.float32,
                        shape=(ours.stop - ours.start, spec.dim),
                    )
                )
            rows.append(parts[0] if len(parts) == 1 else np.concatenate(parts))
        return rows

    def push(
        self, push: Push, shards: Sequence[int]
    ) -> list[ps_pb2.PushRequest]:
        """Returns the slices of a push for some shards, in their order."""
        requests = [_header(push, shard) for shard in shards]
        gradients = push.gradients
        if gradients.nonfinite:
            return requests
        dense = self._cache.dense.split(gradients.dense)
        states = self._cache.states.split(gradients.state_deltas)
        for shard, request in zip(shards, requests, strict=True):
            if len(dense[shard]):
                self._encode(request.dense, dense[shard])
            if len(states[shard]):
                # Changes too small for half precision add up.
                tensors.encode_into(request.state_deltas, states[shard])
            for table, grouped in enumerate(push.ids):
                ours = grouped.of_shard(shard)
                entry = request.tables.add(table=table)
                tensors.encode_into(entry.ids, grouped.ids[ours])
                self._encode(entry.gradients, gradients.rows[table][ours])
        return requests

    def _encode(self, tensor: tensor_pb2.Tensor, array: np.ndarray) -> None:
        tensors.encode_into(
            tensor,
            array,
            wire_dtype=self._wire.wire_dtype,
            compression=self._wire.wire_compression,
        )


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
