"""Members and their clocks: how many steps each live worker has finished."""

import dataclasses
from collections.abc import Iterable
from typing import Any


@dataclasses.dataclass
class _Member:
    base: int
    # The first step that this shard heard of. It is 0 unless the shard was
    # started while the member was already at work.
    origin: int | None = None
    # Steps finished without a gap, counted from `origin`.
    finished: int = 0
    # Steps finished beyond the gap, counted from `origin`.
    ahead: set[int] = dataclasses.field(default_factory=set)

    @property
    def clock(self) -> int:
        return self.base + self.finished


class Clocks:
    """The members that the master lists, each with its clock.

    A member's clock is the minimum of all clocks when it joined plus the
    number of steps that it has finished since, counted up to the first one
    that is missing. A plain object: the caller locks.
    """

    def __init__(self) -> None:
        self._number = -1
        self._members: dict[int, _Member] = {}
        self._left: set[int] = set()

    @property
    def number(self) -> int:
        """Number of the newest list of members, -1 before the first."""
        return self._number

    @property
    def members(self) -> frozenset[int]:
        """The members listed."""
        return frozenset(self._members)

    def set_members(self, number: int, members: Iterable[int]) -> bool:
        """Takes a list of members from the master.

        Args:
            number: The list's number; it grows with every change.
            members: All live members.

        Returns:
            Whether the list was newer than the one held; if not, nothing
            was changed.
        """
        if number <= self._number:
            return False
        self._number = number
        listed = set(members)
        for member in self._members.keys() - listed:
            del self._members[member]
            self._left.add(member)
        base = self.minimum()
        for member in listed - self._members.keys():
            self._members[member] = _Member(base)
            self._left.discard(member)
        return True

    def has_met(self, member: int) -> bool:
        """Returns whether a step of a member listed was heard of."""
        return self._members[member].origin is not None

    def knows(self, member: int) -> bool:
        """Returns whether the newest list holds the member."""
        return member in self._members

    def has_left(self, member: int) -> bool:
        """Returns whether an older list held the member."""
        return member in self._left

    def minimum(self) -> int:
        """Returns the least clock, 0 where there is no member."""
        return min((m.clock for m in self._members.values()), default=0)

    def clock(self, member: int) -> int:
        """Returns the clock of a member listed."""
        return self._members[member].clock

    def position(self, member: int, step: int) -> int:
        """Returns where a member's step stands on the scale of the clocks.

        The first call for a member fixes its origin.
        """
        state = self._members[member]
        if state.origin is None:
            state.origin = step
        return state.base + step - state.origin

    def finish(self, member: int, step: int) -> None:
        """Counts a step as finished; a retry of one changes nothing.

        Args:
            member: Who finished it; anyone not listed is ignored.
            step: The member's step.
        """
        state = self._members.get(member)
        if state is None:
            return
        if state.origin is None:
            state.origin = step
        place = step - state.origin
        if place < state.finished:
            return
        state.ahead.add(place)
        while state.finished in state.ahead:
            state.ahead.remove(state.finished)
            state.finished += 1

    def to_state(self) -> dict[str, Any]:
        """Returns everything as lists and ints, in a fixed order."""
        return {
            "number": self._number,
            "left": sorted(self._left),
            "members": [
                [n, m.base, m.origin, m.finished, sorted(m.ahead)]
                for n, m in sorted(self._members.items())
            ],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over what `to_state` returned."""
        self._number = state["number"]
        self._left = set(state["left"])
        self._members = {
            number: _Member(base, origin, finished, set(ahead))
            for number, base, origin, finished, ahead in state["members"]
        }
