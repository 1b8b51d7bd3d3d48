"""One PS shard: what it answers to those who call it."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from elastic_keras.config import StalenessOptions
from elastic_keras.ps.answers import Outcome, Pulled, PushResult
from elastic_keras.ps.errors import BadRequestError
from elastic_keras.ps.ledger import check_key
from elastic_keras.ps.parameters import Empty
from elastic_keras.ps.push import (
    MAX_MEMBER,
    MAX_STEP,
    Push,
    check_ids,
    check_push,
    check_range,
    check_table,
    is_finite,
)
from elastic_keras.ps.state import ShardState
from elastic_keras.ps.status import ShardReport


def _empty(shape: tuple[int, ...]) -> np.ndarray:
    return np.empty(shape, np.float32)


class Shard(ShardState):
    """Owns part of a model's parameters; safe to call from many threads.

    Pulls run beside each other and beside a push; pushes are applied one
    after another. A pull names the version that it found before it read, so
    it never claims an update that its values lack.

    Args:
        index: This shard's index.
        num_shards: Number of shards of the job.
        options: The bound on staleness.
    """

    def __init__(
        self, index: int, num_shards: int, options: StalenessOptions
    ) -> None:
        super().__init__(index, num_shards, options)
        self._listener: Callable[[], None] | None = None

    def on_change(self, listener: Callable[[], None]) -> None:
        """Names who is told when a waiting pull may be granted.

        Args:
            listener: Called without arguments, from any thread.
        """
        self._listener = listener

    def _tell(self) -> None:
        if self._listener is not None:
            self._listener()

    @property
    def is_updating(self) -> bool:
        """Whether an update is under way, so that a call may have to wait."""
        return self._update_lock.locked()

    @property
    def dense_nbytes(self) -> int:
        """Bytes of the dense parameters and states that a pull may bring."""
        if self._parameters is None:
            return 0
        placement = self._parameters.placement
        return 4 * (placement.dense_size + placement.states_size)

    def set_members(self, number: int, members: Sequence[int]) -> bool:
        """Takes the master's list of live members.

        Args:
            number: Grows with every change; an older list is ignored.
            members: The live members.

        Returns:
            Whether the list was newer than the one held.

        Raises:
            BadRequestError: A number is out of range or a member repeats.
        """
        check_range("number", number, MAX_MEMBER)
        for member in members:
            check_range("members", member, MAX_MEMBER)
        if len(set(members)) != len(members):
            raise BadRequestError(
                f"members: must be unique. Received: members={list(members)}"
            )
        with self._update_lock:
            changed = self._books.set_members(number, members)
        self._tell()
        return changed

    def may_pull(self, member: int, step: int, *, recompute: bool) -> bool:
        """Decides whether a training pull is granted now.

        To be asked again after each change until it says yes.

        Args:
            member: Who pulls.
            step: The member's step.
            recompute: Whether a refused push made it pull again.

        Raises:
            MemberLeftError: The member has left.
            BadRequestError: A number is out of range.
        """
        check_range("member", member, MAX_MEMBER)
        check_range("step", step, MAX_STEP)
        return self._books.may_pull(member, step, recompute=recompute)

    def pull(
        self,
        tables: Sequence[tuple[int, np.ndarray]],
        *,
        dense_version: int = -1,
        empty: Empty = _empty,
    ) -> Pulled:
        """Reads rows, and the dense parameters where they are newer.

        Args:
            tables: Pairs of a table's position and ids, int64 of shape (n,).
            dense_version: The version of the caller's copy, -1 for none.
            empty: Makes the arrays that are filled.

        Raises:
            BadRequestError: A table or ids do not fit.
            NotReadyError: There is no model, or there are no first values.
        """
        parameters = self._ready()
        for table, ids in tables:
            check_table(table, parameters.signature)
            name = f"tables[{parameters.signature.tables[table].name}]"
            check_ids(name, ids, self.index, self.num_shards)
        # Before anything is read: the values may hold more, never less.
        version, newest, iterations = self._books.versions(parameters)
        dense = states = None
        if parameters.has_dense and dense_version != newest:
            dense, states = parameters.read_dense(empty)
        rows = [
            parameters.read_rows(table, ids, empty) for table, ids in tables
        ]
        pulled = Pulled(version, iterations, rows, dense, states, newest)
        self._books.count_pull(pulled)
        return pulled

    def push(self, push: Push) -> PushResult:
        """Takes a batch's gradients.

        Args:
            push: The push.

        Raises:
            BadRequestError: Something is wrong with it; nothing was changed.
            NotReadyError: There is no model, or there are no first values.
        """
        parameters = self._ready()
        check_push(
            push,
            parameters.signature,
            parameters.placement,
            self.index,
            self.num_shards,
        )
        nonfinite = push.gradients is None or not is_finite(push.gradients)
        with self._update_lock:
            result, judgement = self._books.judge(push, nonfinite)
            if judgement is not None:
                self._updates.take(parameters, push, judgement)
                result = dataclasses.replace(result, version=self.version)
        if result.outcome is not Outcome.REFUSED:
            self._tell()
        return result

    def flush(self) -> tuple[int, int]:
        """Applies what `--grads_to_wait` still buffers.

        Returns:
            The version and the optimizer updates afterwards.
        """
        with self._update_lock:
            if self._parameters is None:
                return self.version, 0
            self._updates.flush(self._parameters)
            return self.version, self._parameters.iterations

    def finalize(self) -> None:
        """Ends training: with `use_ema`, parameters become their averages."""
        self.flush()
        with self._update_lock:
            if self._parameters is not None and self._initialized:
                self._log.finalize()
                self._parameters.finalize()
                self._books.count_finalized()

    def set_learning_rate(self, optimizer: int, learning_rate: float) -> None:
        """Fixes an optimizer's learning rate from the next update on.

        Args:
            optimizer: Its position in the signature.
            learning_rate: Finite, at least 0.

        Raises:
            BadRequestError: One of them is not so.
            NotReadyError: There is no model.
        """
        parameters = self._joined()
        count = len(parameters.signature.optimizers)
        check_range("optimizer", optimizer, count)
        if not math.isfinite(learning_rate) or learning_rate < 0:
            raise BadRequestError(
                "learning_rate: must be finite and at least 0. "
                f"Received: learning_rate={learning_rate}"
            )
        with self._update_lock:
            self._log.learning_rate(optimizer, learning_rate)
            parameters.set_learning_rate(optimizer, learning_rate)

    def progress(self, epoch: int, task: int) -> tuple[bytes, int]:
        """Tells which batches of a task the ledger holds.

        Returns:
            A bitmap, bit i of the little-endian bytes for batch i, and the
            examples of these batches.

        Raises:
            BadRequestError: A number is out of range.
        """
        try:
            check_key(epoch, task, 0)
        except ValueError as error:
            raise BadRequestError(str(error)) from error
        return self._books.progress(epoch, task)

    def report(self) -> ShardReport:
        """Returns the shard's state in numbers."""
        return self._books.report(self._parameters)
