"""The staleness policies: which pulls wait, which pushes are refused.

The objects here know no sockets, threads or arrays: a shard asks them under
its own lock.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from elastic_keras.config import StalenessOptions
from elastic_keras.ps.clocks import Clocks
from elastic_keras.ps.errors import MemberLeftError

# A push refused this often has the shard reserved for it.
REFUSALS_BEFORE_RESERVATION = 3

# Length of the histogram; the last entry counts everything beyond.
HISTOGRAM_SIZE = 129


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What becomes of a push.

    Args:
        refused: It is too stale: pull again, recompute, push again.
        staleness: Versions that the shard advanced since its pull.
        rate_factor: What its learning rate is multiplied by.
    """

    refused: bool
    staleness: int
    rate_factor: float = 1.0


class Staleness:
    """Holds the bound of `--max_staleness` by the policy chosen.

    Under `recompute` a push refused three times gets a reservation: until
    it lands, every other push is refused, so the version stands still and
    the next recomputed push is fresh. Nothing but the first pull of a step
    ever waits for a reservation. A worker may so hold a reservation at one
    shard and be refused at another without two workers waiting for each
    other: refused pushes are answered at once and the pulls of a
    recomputation are granted at once.

    A plain object: the caller locks.

    Args:
        options: Bound and policy.
    """

    def __init__(self, options: StalenessOptions) -> None:
        self.clocks = Clocks()
        self._policy = options.staleness_policy
        self._bound = options.max_staleness
        self._version = 0
        self._refusals: dict[tuple[int, int], int] = {}
        # (member, step) in the order of reservation; the first one holds.
        self._reservations: list[tuple[int, int]] = []
        self._counts = [0] * HISTOGRAM_SIZE
        self._max = 0
        self._sum = 0
        self._refused = 0

    @property
    def version(self) -> int:
        """Pushes applied."""
        return self._version

    @property
    def counts(self) -> tuple[int, ...]:
        """Histogram of the staleness of the pushes applied.

        Entry i counts staleness i, the last one everything beyond too.
        """
        return tuple(self._counts)

    @property
    def maximum(self) -> int:
        """The largest staleness applied."""
        return self._max

    @property
    def total(self) -> int:
        """Sum of the staleness of the pushes applied."""
        return self._sum

    @property
    def refused(self) -> int:
        """Pushes refused as too stale."""
        return self._refused

    @property
    def reserved_for(self) -> tuple[int, int] | None:
        """The (member, step) whose push the shard waits for, if any."""
        return self._reservations[0] if self._reservations else None

    def set_members(self, number: int, members: list[int]) -> bool:
        """Takes a list of members; see `Clocks.set_members`."""
        if not self.clocks.set_members(number, members):
            return False
        live = self.clocks.members
        self._reservations = [r for r in self._reservations if r[0] in live]
        self._refusals = {
            key: n for key, n in self._refusals.items() if key[0] in live
        }
        return True

    def may_pull(self, member: int, step: int, *, recompute: bool) -> bool:
        """Decides whether a training pull is granted now.

        Asking again for the same step changes nothing.

        Args:
            member: Who pulls.
            step: The step that it pulls for.
            recompute: Whether a refused push made it pull again.

        Returns:
            Whether it is granted; if not, ask again after a change.

        Raises:
            MemberLeftError: It would wait, but the member has left.
        """
        if self._policy in ("dampen", "unbounded"):
            return True
        if not self.clocks.knows(member):
            if self.clocks.has_left(member):
                raise MemberLeftError(
                    "The master has taken this member off the list. "
                    f"Received: member={member}"
                )
            return False
        position = self.clocks.position(member, step)
        if self._policy == "recompute":
            holder = self.reserved_for
            return recompute or holder is None or holder[0] == member
        if self.clocks.minimum() < position - self._bound:
            return False
        self._assert_bound(member, step, position)
        return True

    def _assert_bound(self, member: int, step: int, position: int) -> None:
        for other in self.clocks.members:
            if self.clocks.clock(other) < position - self._bound:
                raise AssertionError(
                    "A pull was granted outside the bound: "
                    f"member={member}, step={step}, position={position}, "
                    f"other={other}, clock={self.clocks.clock(other)}, "
                    f"bound={self._bound}"
                )

    def meet(self, member: int, step: int) -> None:
        """Takes note of a member's first step, as `may_pull` does."""
        if self.clocks.knows(member):
            self.clocks.position(member, step)

    def judge(self, member: int, step: int, pull_version: int) -> Judgement:
        """Decides what becomes of a push at the present version.

        Args:
            member: Who pushes.
            step: The step that it pushes.
            pull_version: The version that its pull returned.
        """
        staleness = self._version - pull_version
        if self._policy == "recompute":
            key = (member, step)
            if staleness > self._bound or self.reserved_for not in (None, key):
                self.refuse(member, step)
                return Judgement(True, staleness)
        if self._policy == "dampen" and staleness > self._bound:
            factor = max(self._bound, 1) / staleness
            return Judgement(False, staleness, factor)
        return Judgement(False, staleness)

    def refuse(self, member: int, step: int) -> None:
        """Counts a push as refused."""
        key = (member, step)
        self._refused += 1
        # A reservation for someone who may have gone would never end.
        if not self.clocks.knows(member):
            return
        self._refusals[key] = self._refusals.get(key, 0) + 1
        if (
            self._refusals[key] >= REFUSALS_BEFORE_RESERVATION
            and key not in self._reservations
        ):
            self._reservations.append(key)

    def finish(self, member: int, step: int) -> None:
        """Counts a step as finished, whatever became of its push.

        To be called once its gradients can be read or wait in the buffer
        of `--grads_to_wait`.
        """
        key = (member, step)
        self._refusals.pop(key, None)
        if key in self._reservations:
            self._reservations.remove(key)
        self.clocks.finish(member, step)

    def applied(self, staleness: Sequence[int]) -> None:
        """Advances the version by the pushes of one update.

        Args:
            staleness: The staleness of each push, as judged.
        """
        for value in staleness:
            if self._policy == "recompute" and value > self._bound:
                raise AssertionError(
                    "A push was applied outside the bound: "
                    f"staleness={value}, bound={self._bound}"
                )
            self._counts[min(value, HISTOGRAM_SIZE - 1)] += 1
            self._max = max(self._max, value)
            self._sum += value
        self._version += len(staleness)

    def to_state(self) -> dict[str, Any]:
        """Returns everything as lists and ints, in a fixed order."""
        return {
            "clocks": self.clocks.to_state(),
            "version": self._version,
            "refusals": [[*k, n] for k, n in sorted(self._refusals.items())],
            "reservations": [list(key) for key in self._reservations],
            "counts": self._counts,
            "max": self._max,
            "sum": self._sum,
            "refused": self._refused,
        }

    def restore(self, state: dict[str, Any], *, members: bool) -> None:
        """Takes over what `to_state` returned.

        Args:
            state: The state.
            members: Whether the members and where they stand as well.
        """
        self._version = state["version"]
        self._counts = list(state["counts"])
        self._max, self._sum = state["max"], state["sum"]
        self._refused = state["refused"]
        if not members:
            return
        self.clocks.restore(state["clocks"])
        self._refusals = {
            (member, step): n for member, step, n in state["refusals"]
        }
        self._reservations = [(m, s) for m, s in state["reservations"]]
