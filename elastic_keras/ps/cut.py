"""A cut: a shard as it was at one moment, on its way to files."""

import dataclasses
import pathlib
import threading
import time
from collections.abc import Callable

from elastic_keras.ps import snapshot
from elastic_keras.ps.books import Books
from elastic_keras.ps.buffer import GradientBuffer
from elastic_keras.ps.forked import Forked, ForkedError
from elastic_keras.ps.journal.journal import Journal
from elastic_keras.ps.parameters import Parameters
from elastic_keras.signature import ModelSignature
from elastic_keras.snapshots.manifest import ShardEntry


class CutError(RuntimeError):
    """The files of a cut were not written; the message says why."""


@dataclasses.dataclass(frozen=True)
class Moment:
    """What a shard was at a cut.

    Args:
        version: Pushes applied.
        iterations: Optimizer updates made.
        batches: Batches in the ledger.
        examples: Their examples.
        ledger_crc32c: Of the ledger.
        segment: The segment of the journal that continues it, or -1.
        pause_seconds: How long the shard stood still for it.
    """

    version: int
    iterations: int
    batches: int
    examples: int
    ledger_crc32c: int
    segment: int
    pause_seconds: float


class Cut:
    """A cut that a forked process writes.

    Args:
        folder: Where its files go.
        signature: The model.
        moment: What the shard was.
        child: The process.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        signature: ModelSignature,
        moment: Moment,
        child: Forked,
    ) -> None:
        self.folder = folder
        self.signature = signature
        self.moment = moment
        self._child = child
        self._entry: ShardEntry | None = None
        self._error = ""
        # Whatever the caller does, the child is waited for.
        self._waiting = threading.Thread(
            target=self._take_result, name="cut", daemon=True
        )
        self._waiting.start()

    def entry(self) -> ShardEntry:
        """Waits for the files; returns what the manifest says of them.

        Raises:
            CutError: They were not written.
        """
        self._waiting.join()
        if self._entry is None:
            raise CutError(
                f"the snapshot cannot be written: {self._error}. "
                f"Received: {str(self.folder)!r}"
            )
        return self._entry

    def give_up(self) -> None:
        """Ends the writing, if it has not come to its end."""
        self._child.end()

    def _take_result(self) -> None:
        try:
            self._entry = ShardEntry.from_json(self._child.result().decode())
        except (ForkedError, ValueError) as error:
            self._error = str(error)


def take(
    parameters: Parameters,
    books: Books,
    buffer: GradientBuffer,
    journal: Journal | None,
    folder: pathlib.Path,
    shard: int,
) -> Cut:
    """Takes a cut; nothing may be applied meanwhile.

    Args:
        parameters: The parameters.
        books: The ledger and the members.
        buffer: What is buffered.
        journal: The journal, whose next segment continues the cut.
        folder: Where the files go.
        shard: The shard's index.

    Raises:
        OSError: There can be no other process.
    """
    start = time.perf_counter()
    with books.held():
        segment = -1 if journal is None else journal.rotate()

        def work(proceed: Callable[[], None]) -> bytes:
            parameters.renew_locks()
            entry = snapshot.write(
                parameters,
                books,
                buffer,
                folder,
                shard=shard,
                segment=segment,
                proceed=proceed,
            )
            return entry.to_json().encode()

        child = Forked(work)
        batches, examples, checksum = books.ledger_sums()
        moment = Moment(
            version=books.version,
            iterations=parameters.iterations,
            batches=batches,
            examples=examples,
            ledger_crc32c=checksum,
            segment=segment,
            pause_seconds=time.perf_counter() - start,
        )
    return Cut(folder, parameters.signature, moment, child)
