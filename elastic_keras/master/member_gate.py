"""Who counts for the staleness bound, and when the shards know it."""

import asyncio
from collections.abc import Callable

from elastic_keras.master.announcer import Announcer
from elastic_keras.master.membership import Membership


class MemberGate:
    """Lets workers become members and cease to be.

    Args:
        membership: The workers.
        announcer: Tells the shards.
        clock: Seconds, from any origin.
    """

    def __init__(
        self,
        membership: Membership,
        announcer: Announcer,
        clock: Callable[[], float],
    ) -> None:
        self.membership = membership
        self._announcer = announcer
        self._clock = clock
        # Workers with a task but without leave to start a step.
        self._paused: set[int] = set()

    def is_paused(self, worker: int) -> bool:
        """Returns whether the worker waits for steps, as no member."""
        return worker in self._paused

    def enter(self, worker: int) -> int:
        """Makes a worker a member; wait for `told` before it is let go.

        Returns:
            Its member number.
        """
        self._paused.discard(worker)
        before = self.membership.number
        member = self.membership.activate(worker)
        if self.membership.number != before:
            self._announcer.announce()
        return member

    def pause(self, worker: int) -> None:
        """Takes a worker that waits for steps out of the members.

        Others may still have steps to do: under `wait` they would wait for
        this one, and it for them.
        """
        self._paused.add(worker)
        if self.membership.deactivate(worker):
            self._announcer.announce()

    def leave(self, worker: int) -> None:
        """Takes a worker without a training task out of the members."""
        self._paused.discard(worker)
        if self.membership.deactivate(worker):
            self._announcer.announce()

    def lose(self, worker: int) -> None:
        """Takes a worker that is gone out of everything."""
        self._paused.discard(worker)
        if self.membership.remove(worker):
            self._announcer.announce()

    def clear(self) -> None:
        """Tells the shards that nobody is a member, whoever was one."""
        self.membership.number += 1
        self._announcer.announce()

    async def told(self, deadline: float) -> bool:
        """Waits until every shard knows the present members.

        Args:
            deadline: When to give up, on the clock.

        Returns:
            Whether they do.
        """
        try:
            await asyncio.wait_for(
                self._announcer.acknowledged(self.membership.number),
                max(deadline - self._clock(), 0.05),
            )
        except asyncio.TimeoutError:
            return False
        return True
