"""What was done to a shard, and where its members stand."""

import threading
from collections.abc import Sequence

from elastic_keras.config import StalenessOptions
from elastic_keras.ps.answers import Outcome, Pulled, PushResult
from elastic_keras.ps.errors import BadRequestError
from elastic_keras.ps.ledger import Ledger
from elastic_keras.ps.parameters import Parameters
from elastic_keras.ps.push import Push
from elastic_keras.ps.staleness import Judgement, Staleness
from elastic_keras.ps.status import ShardReport, make_report, report_tables


class Books:
    """A shard's ledger, its members' clocks and its counts.

    Safe for threads. What is told together is of one moment. Numbers of
    requests were checked before.

    Args:
        options: The bound on staleness.
    """

    def __init__(self, options: StalenessOptions) -> None:
        # Guards all below and `iterations`; never held over a kernel.
        self._lock = threading.Lock()
        self._staleness = Staleness(options)
        self._ledger = Ledger()
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
            return self._staleness.set_members(number, list(members))

    def may_pull(self, member: int, step: int, *, recompute: bool) -> bool:
        """Decides whether a training pull is granted now.

        Raises:
            MemberLeftError: The member has left.
        """
        with self._lock:
            return self._staleness.may_pull(member, step, recompute=recompute)

    def versions(self, parameters: Parameters) -> tuple[int, int, int]:
        """Returns the version, the dense parameters' and the iterations."""
        with self._lock:
            version = self._staleness.version
            return version, version + self._finalized, parameters.iterations

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
            if push.pull_version > version:
                raise BadRequestError(
                    f"pull_version: this shard is at version {version}. "
                    f"Received: pull_version={push.pull_version}"
                )
            if self._ledger.holds(*push.key):
                self._staleness.finish(push.member, push.step)
                if self._ledger.is_nonfinite(*push.key):
                    return PushResult(Outcome.NONFINITE, version), None
                self._duplicates += 1
                return PushResult(Outcome.DUPLICATE, version), None
            if nonfinite:
                self._ledger.add(*push.key, push.examples, nonfinite=True)
                self._staleness.finish(push.member, push.step)
                return PushResult(Outcome.NONFINITE, version), None
            judgement = self._staleness.judge(
                push.member, push.step, push.pull_version
            )
            outcome = Outcome.REFUSED if judgement.refused else Outcome.APPLIED
            result = PushResult(outcome, version, judgement.staleness)
            return result, None if judgement.refused else judgement

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
