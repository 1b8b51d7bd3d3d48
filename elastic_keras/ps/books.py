"""What was done to a shard, and where its members stand."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from elastic_keras.config import StalenessOptions
from elastic_keras.ps.answers import Outcome, Pulled, PushResult
from elastic_keras.ps.errors import BadRequestError
from elastic_keras.ps.ledger import Ledger
from elastic_keras.ps.log import ShardLog
from elastic_keras.ps.parameters import Parameters
from elastic_keras.ps.push import Push
from elastic_keras.ps.staleness import Judgement, Staleness
from elastic_keras.ps.status import ShardReport, make_report, report_tables

# Fits an int64 with the eighths of a second since 2023 above it.
_VERSION_BITS = 29
_SINCE = 1_700_000_000


class Books:
    """A shard's ledger, its members' clocks and its counts.

    Safe for threads. What is told together is of one moment. Numbers of
    requests were checked before.

    Args:
        options: The bound on staleness.
        log: Where changes are written down.
    """

    def __init__(self, options: StalenessOptions, log: ShardLog) -> None:
        self._log = log
        # Guards all below and `iterations`; never held over a kernel.
        self._lock = threading.Lock()
        self._staleness = Staleness(options)
        self._ledger = Ledger()
        # A worker may hold dense parameters of a process before this one,
        # whose versions it must not take for this one's.
        self._process = int(8 * (time.time() - _SINCE)) << _VERSION_BITS
        # Pushes that were acknowledged are gone, so that workers know of
        # versions that this process never had.
        self._has_lost = False
        self._finalized = 0
        self._duplicates = 0
        self._pulled_bytes = 0
        self._pushed_bytes = 0

    @property
    def version(self) -> int:
        """Pushes applied."""
        return self._staleness.version

    def set_members(self, number: int, members: Sequence[int]) -> bool:
        """Takes a list of members; returns whether it was newer."""
        with self._lock:
            if not self._staleness.set_members(number, list(members)):
                return False
            self._log.members(number, members)
            return True

    def may_pull(self, member: int, step: int, *, recompute: bool) -> bool:
        """Decides whether a training pull is granted now.

        Raises:
            MemberLeftError: The member has left.
        """
        with self._lock:
            clocks = self._staleness.clocks
            is_new = clocks.knows(member) and not clocks.has_met(member)
            granted = self._staleness.may_pull(
                member, step, recompute=recompute
            )
            if is_new and clocks.has_met(member):
                self._log.origin(member, step)
            return granted

    def versions(self, parameters: Parameters) -> tuple[int, int, int]:
        """Returns the version, the dense parameters' and the iterations."""
        with self._lock:
            version = self._staleness.version
            dense_version = self._process + version + self._finalized
            return version, dense_version, parameters.iterations

    def judge(
        self, push: Push, nonfinite: bool
    ) -> tuple[PushResult, Judgement | None]:
        """Answers a push, unless its gradients are to be taken.

        Args:
            push: The push.
            nonfinite: Whether its gradients hold a NaN or Inf.

        Returns:
            The answer, and for gradients to be taken what to make of them.

        Raises:
            BadRequestError: Its pull was of a version yet to come.
        """
        with self._lock:
            version = self._staleness.version
            if push.pull_version > version and not self._has_lost:
                raise BadRequestError(
                    f"pull_version: this shard is at version {version}. "
                    f"Received: pull_version={push.pull_version}"
                )
            if self._ledger.holds(*push.key):
                known = self._ledger.is_nonfinite(*push.key)
                outcome = Outcome.NONFINITE if known else Outcome.DUPLICATE
            elif nonfinite:
                outcome = Outcome.NONFINITE
            else:
                judgement = self._staleness.judge(
                    push.member, push.step, min(push.pull_version, version)
                )
                staleness = judgement.staleness
                if not judgement.refused:
                    result = PushResult(Outcome.APPLIED, version, staleness)
                    return result, judgement
                self._log.push(push, Outcome.REFUSED, judgement)
                return PushResult(Outcome.REFUSED, version, staleness), None
            self._pass_over(push, outcome)
            return PushResult(outcome, version), None

    def pass_over(self, push: Push, outcome: Outcome) -> None:
        """Enters once more what became of a push that was not applied."""
        with self._lock:
            if outcome is Outcome.REFUSED:
                self._staleness.refuse(push.member, push.step)
            else:
                self._pass_over(push, outcome)

    def _pass_over(self, push: Push, outcome: Outcome) -> None:
        self._log.push(push, outcome, Judgement(False, 0))
        if not self._ledger.holds(*push.key):
            self._ledger.add(*push.key, push.examples, nonfinite=True)
        elif outcome is Outcome.DUPLICATE:
            self._duplicates += 1
        self._staleness.finish(push.member, push.step)

    def meet(self, member: int, step: int) -> None:
        """Takes note of a member's first step, as `may_pull` does."""
        with self._lock:
            self._staleness.meet(member, step)

    def enter(
        self,
        push: Push | None,
        parameters: Parameters,
        staleness: Sequence[int],
    ) -> None:
        """Enters a push that was taken, and an update.

        Args:
            push: The push, `None` for the update alone.
            parameters: What was updated.
            staleness: That of the pushes in the update; empty for none.
        """
        with self._lock:
            self._staleness.applied(staleness)
            if staleness:
                parameters.iterations += 1
            if push is not None:
                self._ledger.add(*push.key, push.examples)
                self._staleness.finish(push.member, push.step)
                if push.gradients is not None:
                    self._pushed_bytes += push.gradients.nbytes

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Lets nothing be entered, or read, meanwhile."""
        with self._lock:
            yield

    def to_state(self) -> dict[str, Any]:
        """Returns everything that outlives the process.

        Only while nothing is entered: see `held`.
        """
        return {
            "staleness": self._staleness.to_state(),
            "ledger": self._ledger.to_state(),
            "duplicates": self._duplicates,
            "finalized": self._finalized,
        }

    def restore(self, state: dict[str, Any], *, members: bool) -> None:
        """Takes over what `to_state` returned.

        Args:
            state: The state.
            members: Whether the members and where they stand as well.
        """
        with self._lock:
            self._staleness.restore(state["staleness"], members=members)
            self._ledger = Ledger.from_state(state["ledger"])
            self._duplicates = state["duplicates"]
            self._finalized = state["finalized"]

    def count_lost(self) -> None:
        """Takes note that pushes which were acknowledged are lost."""
        self._has_lost = True

    def ledger_sums(self) -> tuple[int, int, int]:
        """Returns the ledger's batches, examples and checksum.

        Only while nothing is entered: see `held`.
        """
        ledger = self._ledger
        examples = sum(ledger.examples_by_epoch().values())
        return ledger.batches, examples, ledger.checksum()

    def count_pull(self, pulled: Pulled) -> None:
        """Counts the bytes of a pull."""
        size = pulled.nbytes
        with self._lock:
            self._pulled_bytes += size

    def count_finalized(self) -> None:
        """Counts that parameters became their averages."""
        with self._lock:
            self._finalized += 1

    def progress(self, epoch: int, task: int) -> tuple[bytes, int]:
        """Tells which batches of a task the ledger holds."""
        with self._lock:
            return self._ledger.progress(epoch, task)

    def report(self, parameters: Parameters | None) -> ShardReport:
        """Returns the shard's state in numbers."""
        # Outside the lock: it may have to wait for an update's kernels.
        tables = report_tables(parameters)
        with self._lock:
            return make_report(
                parameters,
                tables,
                self._staleness,
                self._ledger,
                duplicates=self._duplicates,
                pulled_bytes=self._pulled_bytes,
                pushed_bytes=self._pushed_bytes,
            )
