"""One PS shard: its parameters and what was done to them."""

import dataclasses
import math
import pathlib
import threading
from collections.abc import Callable, Sequence

import numpy as np

from elastic_keras import routing
from elastic_keras.config import StalenessOptions
from elastic_keras.ps import cut as cuts
from elastic_keras.ps import snapshot as snapshots
from elastic_keras.ps.answers import Outcome, Pulled, PushResult
from elastic_keras.ps.books import Books
from elastic_keras.ps.errors import BadRequestError, NotReadyError
from elastic_keras.ps.journal.journal import Journal
from elastic_keras.ps.ledger import check_key
from elastic_keras.ps.log import ShardLog
from elastic_keras.ps.parameters import Empty, Parameters
from elastic_keras.ps.push import (
    MAX_MEMBER,
    MAX_STEP,
    Push,
    check_first_values,
    check_ids,
    check_push,
    check_range,
    check_table,
    is_finite,
)
from elastic_keras.ps.staleness import Judgement
from elastic_keras.ps.status import ShardReport
from elastic_keras.ps.updates import Updates
from elastic_keras.signature import ModelSignature
from elastic_keras.snapshots.manifest import ShardEntry
from elastic_keras.snapshots.snapshot import Snapshot


def _empty(shape: tuple[int, ...]) -> np.ndarray:
    return np.empty(shape, np.float32)


class Shard:
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
        self.index = index
        self.num_shards = num_shards
        # Serialises all that changes state and its records in the journal.
        self._update_lock = threading.Lock()
        self._log = ShardLog()
        self._books = Books(options, self._log)
        self._parameters: Parameters | None = None
        self._initialized = False
        # Has its own order: only touched under `_update_lock`.
        self._updates = Updates(
            index, options.grads_to_wait, self._books, self._log
        )
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
    def version(self) -> int:
        """Pushes applied."""
        return self._books.version

    @property
    def initialized(self) -> bool:
        """Whether the dense parameters have their first values."""
        return self._initialized

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

    @property
    def failure(self) -> BaseException | None:
        """What broke an update; the shard is of no more use then."""
        return self._updates.failure

    @property
    def journal(self) -> Journal | None:
        """Where changes are written down."""
        return self._log.journal

    def write_to(self, journal: Journal) -> None:
        """Names the journal; what happened before must be in it."""
        self._log.write_to(journal)

    def adopt(self, signature: ModelSignature) -> ModelSignature:
        """Takes the model of the first worker that joins.

        Args:
            signature: The worker's model.

        Returns:
            The model served, which the worker's must equal: the first one.

        Raises:
            BadRequestError: The shard cannot run this model.
        """
        with self._update_lock:
            if self._parameters is None:
                self._parameters = self._make(signature)
                self._log.model(signature)
                # Nothing to wait for where nothing dense lives here.
                self._initialized = not self._parameters.has_dense
            return self._parameters.signature

    def _make(self, signature: ModelSignature) -> Parameters:
        placement = routing.place(signature, self.num_shards)[self.index]
        try:
            return Parameters(signature, placement)
        except (ValueError, IndexError) as error:
            raise BadRequestError(f"signature: {error}") from error

    def init_dense(self, dense: np.ndarray, states: np.ndarray) -> bool:
        """Takes the first values of dense parameters and states, once.

        Args:
            dense: float32 of shape (dense_size,), in routing order.
            states: float32 of shape (states_size,), in routing order.

        Returns:
            Whether they were taken; `False` where others were before.

        Raises:
            BadRequestError: A shape or dtype does not fit, or a dense value
                is NaN or Inf.
        """
        with self._update_lock:
            parameters = self._joined()
            check_first_values(dense, states, parameters.placement)
            if self._initialized:
                return False
            self._log.first_values(dense, states)
            parameters.initialize(dense, states)
            self._initialized = True
            return True

    def _joined(self) -> Parameters:
        if self._parameters is None:
            raise NotReadyError(
                f"shard {self.index} has no model yet: join first"
            )
        return self._parameters

    def _ready(self) -> Parameters:
        parameters = self._joined()
        if not self._initialized:
            raise NotReadyError(
                f"shard {self.index} has no dense parameters yet: "
                "offer first values first"
            )
        return parameters

    def restore(
        self,
        snapshot: Snapshot,
        *,
        training: bool,
        ledger: bool = False,
        members: bool = False,
    ) -> None:
        """Takes over what it owns of a snapshot, before anyone has joined.

        Args:
            snapshot: The snapshot.
            training: Whether it is trained further; otherwise optimizers and
                their slots are left out.
            ledger: Whether to go on where the snapshot's job was: ledger,
                version, counts and what was buffered.
            members: With `ledger`: whether the members go on as well.

        Raises:
            SnapshotError: A file cannot be read.
            BadRequestError: The shard cannot run this model.
        """
        signature = snapshot.signature
        self.adopt(signature if training else signature.for_reading())
        with self._update_lock:
            snapshots.restore(
                self._joined(),
                snapshot,
                index=self.index,
                num_shards=self.num_shards,
                slots=training,
            )
            if ledger:
                snapshots.restore_books(
                    self._books,
                    self._updates.buffer,
                    snapshot,
                    index=self.index,
                    num_shards=self.num_shards,
                    members=members,
                )
            self._initialized = True

    def cut(self, folder: pathlib.Path) -> cuts.Cut:
        """Has a copy of the shard as it is now written by another process.

        Args:
            folder: Where the files go.

        Returns:
            The cut, whose files come later.

        Raises:
            NotReadyError: There is no model, or there are no first values.
            OSError: There can be no other process.
        """
        with self._update_lock:
            return cuts.take(
                self._ready(),
                self._books,
                self._updates.buffer,
                self._log.journal,
                folder,
                self.index,
            )

    def write(self, folder: pathlib.Path) -> tuple[ModelSignature, ShardEntry]:
        """Writes a shard that is not served to files.

        Args:
            folder: Where the files go.

        Returns:
            The model, and what was written.

        Raises:
            NotReadyError: There is no model, or there are no first values.
            OSError: It cannot be written.
        """
        with self._update_lock:
            parameters = self._ready()
            entry = snapshots.write(
                parameters,
                self._books,
                self._updates.buffer,
                folder,
                shard=self.index,
                segment=-1,
                proceed=lambda: None,
            )
        return parameters.signature, entry

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

    def repeat(
        self, push: Push, outcome: Outcome, judgement: Judgement
    ) -> None:
        """Takes a push that was judged before the shard was restarted.

        Args:
            push: The push.
            outcome: What became of it.
            judgement: Its staleness and factor, if it was applied.

        Raises:
            NotReadyError: There is no model, or there are no first values.
        """
        parameters = self._ready()
        with self._update_lock:
            if outcome is Outcome.APPLIED:
                self._updates.take(parameters, push, judgement)
            else:
                self._books.pass_over(push, outcome)

    def count_lost(self) -> None:
        """Takes note that pushes which were acknowledged are lost."""
        self._books.count_lost()

    def meet(self, member: int, step: int) -> None:
        """Takes note of a member's first step, as `may_pull` does."""
        self._books.meet(member, step)

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
