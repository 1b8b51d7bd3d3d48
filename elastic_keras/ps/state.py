"""What a shard is, and how that is kept: journal, cuts and snapshots."""

import pathlib
import threading

import numpy as np

from elastic_keras import routing
from elastic_keras.config import StalenessOptions
from elastic_keras.ps import cut as cuts
from elastic_keras.ps import snapshot as snapshots
from elastic_keras.ps.answers import Outcome
from elastic_keras.ps.books import Books
from elastic_keras.ps.errors import BadRequestError, NotReadyError
from elastic_keras.ps.journal.journal import Journal
from elastic_keras.ps.log import ShardLog
from elastic_keras.ps.parameters import Parameters
from elastic_keras.ps.push import Push, check_first_values
from elastic_keras.ps.staleness import Judgement
from elastic_keras.ps.updates import Updates
from elastic_keras.signature import ModelSignature
from elastic_keras.snapshots.manifest import ShardEntry
from elastic_keras.snapshots.snapshot import Snapshot


class ShardState:
    """Parameters and what was done to them, which outlive a process.

    All that changes them is in the journal in the same order, so that a
    new state on which it is repeated has the same bits.

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

    @property
    def version(self) -> int:
        """Pushes applied."""
        return self._books.version

    @property
    def initialized(self) -> bool:
        """Whether the dense parameters have their first values."""
        return self._initialized

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
