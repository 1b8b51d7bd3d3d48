"""Tells every shard who the members are."""

import asyncio
import contextlib
import logging

from elastic_keras.master.changes import Changes
from elastic_keras.master.membership import Membership
from elastic_keras.master.shards import ShardCalls
from elastic_keras.wire.errors import RpcError

_LOGGER = logging.getLogger(__name__)
_PAUSE = 1.0


class Announcer:
    """Sends the newest list of members to each shard until it has it.

    Each shard has a sender of its own: one that cannot be reached holds
    nobody up but those who wait for it. Lists that were overtaken by a newer
    one are not sent.

    Args:
        membership: Where the lists come from.
        shards: Where they go.
        changes: Told when a shard has taken a list.
    """

    def __init__(
        self, membership: Membership, shards: ShardCalls, changes: Changes
    ) -> None:
        self._membership = membership
        self._shards = shards
        self._changes = changes
        # A shard that was told nothing knows as much as the first list says.
        self._sent = [membership.number] * shards.count
        self._outdated = [asyncio.Event() for _ in range(shards.count)]
        self._senders: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Starts sending."""
        self._senders = [
            asyncio.create_task(self._send(shard))
            for shard in range(self._shards.count)
        ]

    def announce(self) -> None:
        """Sends the present list, without waiting for it."""
        for event in self._outdated:
            event.set()

    async def acknowledged(self, number: int) -> None:
        """Waits until every shard has the list of this number, or newer."""
        while min(self._sent, default=number) < number:
            await self._changes.wait()

    async def close(self) -> None:
        """Stops sending."""
        for sender in self._senders:
            sender.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._senders)

    async def _send(self, shard: int) -> None:
        while True:
            await self._outdated[shard].wait()
            self._outdated[shard].clear()
            number = self._membership.number
            if number <= self._sent[shard]:
                continue
            members = self._membership.members
            try:
                await self._shards.set_members(shard, number, members)
            except RpcError as error:
                # Not one that a retry mends; the shard may be restarting.
                _LOGGER.warning("Shard %d takes no members: %s", shard, error)
                self._outdated[shard].set()
                await asyncio.sleep(_PAUSE)
                continue
            self._sent[shard] = number
            self._changes.notify()
