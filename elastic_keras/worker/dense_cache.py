"""The newest dense parameters that a worker has seen."""

import threading
from collections.abc import Sequence

import numpy as np

from elastic_keras import routing
from elastic_keras.signature import ModelSignature
from elastic_keras.wire import tensors
from elastic_keras.wire.proto import ps_pb2
from elastic_keras.worker import aligned
from elastic_keras.worker.shards import Reply
from elastic_keras.worker.values import Dense

# Version, dense buffer and states buffer of one shard.
Held = tuple[int, np.ndarray, np.ndarray]


class DenseCache:
    """Keeps the shards' dense buffers by version and joins them.

    A reply leaves out what its request said that the caller holds, so each
    request is joined with what was held when it was made.

    Args:
        signature: The model.
        num_shards: Number of shards.
    """

    def __init__(self, signature: ModelSignature, num_shards: int) -> None:
        placement = routing.place(signature, num_shards)
        self.dense = routing.FlatPlan([shard.dense for shard in placement])
        self.states = routing.FlatPlan([shard.states for shard in placement])
        nothing = np.empty(0, np.float32)
        self._held: list[Held] = [(-1, nothing, nothing)] * num_shards
        self._joined = Dense((), nothing, nothing)
        self._lock = threading.Lock()

    def held(self) -> list[Held]:
        """Returns, per shard, the newest buffers seen."""
        with self._lock:
            return list(self._held)

    def join(self, replies: Sequence[Reply], held: Sequence[Held]) -> Dense:
        """Returns what the shards had when they answered a pull.

        Args:
            replies: One per shard.
            held: What `held` returned when the requests were made.
        """
        newest = [
            self._newest(shard, reply.message, reply.region, held[shard])
            for shard, reply in enumerate(replies)
        ]
        versions = tuple(version for version, _, _ in newest)
        with self._lock:
            for shard, entry in enumerate(newest):
                # A slower, older answer must not hide a newer one.
                if entry[0] > self._held[shard][0]:
                    self._held[shard] = entry
            joined = self._joined
        if joined.versions == versions:
            return joined
        joined = Dense(
            versions,
            self._join(self.dense, [dense for _, dense, _ in newest]),
            self._join(self.states, [states for _, _, states in newest]),
        )
        with self._lock:
            self._joined = joined
        return joined

    @staticmethod
    def _join(
        plan: routing.FlatPlan, buffers: Sequence[np.ndarray]
    ) -> np.ndarray:
        if any(buffer.size == plan.size for buffer in buffers):
            return plan.join(buffers)
        return plan.join(buffers, out=aligned.empty((plan.size,)))

    def _newest(
        self,
        shard: int,
        reply: ps_pb2.PullReply,
        region: np.ndarray | None,
        held: Held,
    ) -> Held:
        if not (reply.HasField("dense") or reply.HasField("states")):
            return held
        dense = states = np.empty(0, np.float32)
        if reply.HasField("dense"):
            dense = tensors.decode(
                reply.dense,
                name=f"dense of shard {shard}",
                dtype=np.float32,
                shape=(self.dense.sizes[shard],),
                region=region,
            )
        if reply.HasField("states"):
            states = tensors.decode(
                reply.states,
                name=f"states of shard {shard}",
                dtype=np.float32,
                shape=(self.states.sizes[shard],),
                region=region,
            )
        return reply.dense_version, dense, states
