"""The push thread: gradients go to the shards, in order."""

from collections.abc import Callable, Sequence

from elastic_keras.wire.errors import RpcError
from elastic_keras.wire.proto import ps_pb2
from elastic_keras.worker import items
from elastic_keras.worker.channel import Channel
from elastic_keras.worker.flow import Flow
from elastic_keras.worker.master_client import is_unknown_worker
from elastic_keras.worker.reservations import Reservations
from elastic_keras.worker.values import Push

_Status = ps_pb2.PushReply.Status


class Pusher:
    """Pushes batches and settles those that every shard has.

    Args:
        push: Pushes to the given shards, `None` for all.
        computed: Batches with their gradients.
        flow: Where refused batches go.
        reservations: Where steps are settled, if they were reserved.
    """

    def __init__(
        self,
        *,
        push: Callable[[Push, Sequence[int] | None], list[ps_pb2.PushReply]],
        computed: Channel[items.ComputedBatch | items.AllComputed],
        flow: Flow,
        reservations: Reservations | None,
    ) -> None:
        self._push = push
        self._computed = computed
        self._flow = flow
        self._reservations = reservations

    def run(self) -> None:
        """Works until the channel is closed."""
        while True:
            item = self._computed.get()
            if isinstance(item, items.AllComputed):
                item.done()
                continue
            try:
                self.push(item)
            except RpcError as error:
                if not is_unknown_worker(error):
                    raise
                # The shards have it; the others of this worker land as well.
                self._flow.put_urgent(items.Lost())

    def push(
        self,
        computed: items.ComputedBatch,
        shards: Sequence[int] | None = None,
    ) -> None:
        """Pushes one batch and waits for the answers.

        What shards refuse comes back as an urgent item of the flow.

        Args:
            computed: The batch.
            shards: Only to these; `None` means all.
        """
        replies = self._push(computed.push, shards)
        asked = range(len(replies)) if shards is None else shards
        refused = [
            shard
            for shard, reply in zip(asked, replies, strict=True)
            if reply.status == _Status.REFUSED
        ]
        if refused:
            self._flow.put_urgent(items.Refused(computed, refused))
            return
        duplicate = shards is None and all(
            reply.status == _Status.DUPLICATE for reply in replies
        )
        self._landed(computed, duplicate)

    def _landed(self, computed: items.ComputedBatch, duplicate: bool) -> None:
        # The steps are settled first: the master checks them off before it
        # hears that the task is done.
        if self._reservations is not None:
            if duplicate:
                self._reservations.settle(returned=1)
            else:
                self._reservations.settle(done=1)
        computed.pulled.train.run.landed()
        self._flow.leave()
