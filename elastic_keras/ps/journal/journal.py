"""The journal that a shard writes."""

import logging
import os
import pathlib
import threading
from collections.abc import Sequence

import numpy as np

from elastic_keras.ps.journal import segments
from elastic_keras.ps.journal.records import Kind, encode, text_array
from elastic_keras.ps.journal.segments import Begin

_LOGGER = logging.getLogger(__name__)
# The most parts that the system takes in one call.
_MOST_PARTS = min(1024, os.sysconf("SC_IOV_MAX"))
_GAP = "it lacks pushes from before; the next complete snapshot mends it"


class Journal:
    """Appends records to a shard's segments; safe for threads.

    A record is in the system's page cache when `append` returns: it
    outlives the process, however that ends. It is not brought to the disk
    (`fsync`) at each push, so a loss of power may take the newest ones.

    After an error nothing is appended until the next cut begins a new
    segment: a record must never follow one that is missing. Sequence
    numbers go on meanwhile, so that a reader sees the gap.

    Args:
        folder: The folder of this shard's journal; made if it is missing.
        begin: What the first new segment says of itself.
        sequence: Number of the next record.
        go_on_at: Goes on with the segment of this number, in place of a new
            one, after so many bytes; what comes behind them is no good.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        begin: Begin,
        *,
        sequence: int = 0,
        go_on_at: int | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._folder = folder
        self._begin = begin
        self._sequence = sequence
        self._fd = -1
        self._size = 0
        self._older_bytes = 0
        self._error = ""
        # A segment after a gap; what is older leads nowhere.
        self._mended_by = -1
        try:
            if go_on_at is None:
                folder.mkdir(parents=True, exist_ok=True)
                self._open(begin)
            else:
                self._go_on(go_on_at)
            self._count_older()
        except OSError as error:
            self._break(error)

    @property
    def segment(self) -> int:
        """Number of the segment that is written."""
        return self._begin.number

    @property
    def nbytes(self) -> int:
        """Bytes of all segments on disk."""
        return self._older_bytes + self._size

    @property
    def error(self) -> str:
        """Why it does not hold every push; empty if it does."""
        return self._error

    def append(
        self,
        kind: Kind,
        numbers: Sequence[int],
        arrays: Sequence[np.ndarray] = (),
    ) -> None:
        """Appends a record; an error breaks the journal and goes no further.

        Args:
            kind: See `Record`.
            numbers: See `Record`.
            arrays: See `Record`.
        """
        with self._lock:
            self._append(kind, numbers, arrays)

    def rotate(self) -> int:
        """Begins a new segment; returns its number.

        Nothing may change the shard's state between the copy that the
        segment continues and this.
        """
        with self._lock:
            self._older_bytes += self._size
            self._size = 0
            old = self._begin
            self._begin = Begin(
                old.job_id, old.shard, old.num_shards, old.number + 1
            )
            gap = bool(self._error)
            self._close()
            try:
                self._open(self._begin)
            except OSError as error:
                self._break(error)
                return self._begin.number
            if gap:
                self._error = _GAP
                self._mended_by = self._begin.number
            return self._begin.number

    def commit(self, segment: int) -> None:
        """Deletes the segments that a complete snapshot makes superfluous.

        Args:
            segment: The one that begins with the snapshot's cut.
        """
        with self._lock:
            for number in segments.numbers(self._folder):
                if number < min(segment, self._begin.number):
                    path = segments.path_of(self._folder, number)
                    for file in (path, segments.mark_of(path)):
                        _remove(file)
            self._count_older()
            if 0 <= self._mended_by <= segment and self._error == _GAP:
                self._error = ""

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._close()

    def _open(self, begin: Begin) -> None:
        path = segments.path_of(self._folder, begin.number)
        # Of a try that ended before it was a segment, if there is one.
        self._fd = os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644
        )
        self._write(Kind.BEGIN, (), (text_array(begin.to_json()),))

    def _go_on(self, offset: int) -> None:
        # Records that follow what is cut off here are of a life that the
        # shard did not have.
        for number in segments.numbers(self._folder):
            if number > self._begin.number:
                segments.path_of(self._folder, number).unlink()
        path = segments.path_of(self._folder, self._begin.number)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.ftruncate(self._fd, offset)
        self._size = offset
        segments.mark_of(path).unlink(missing_ok=True)

    def _append(
        self, kind: Kind, numbers: Sequence[int], arrays: Sequence[np.ndarray]
    ) -> None:
        if self._fd < 0:
            self._sequence += 1
            return
        try:
            self._write(kind, numbers, arrays)
        except OSError as error:
            self._break(error)

    def _write(
        self, kind: Kind, numbers: Sequence[int], arrays: Sequence[np.ndarray]
    ) -> None:
        parts = encode(kind, self._sequence, numbers, arrays)
        # Counted in any case: what fails leaves a gap.
        self._sequence += 1
        left = list(map(_view, parts))
        size = sum(map(len, left))
        while left:
            written = os.writev(self._fd, left[:_MOST_PARTS])
            while left and written >= len(left[0]):
                written -= len(left.pop(0))
            if written:
                left[0] = left[0][written:]
        self._size += size

    def _break(self, error: OSError) -> None:
        _LOGGER.error(
            "The journal cannot be written, training goes on without it: %s. "
            "Received: folder=%r",
            error.strerror or error,
            str(self._folder),
        )
        self._error = f"cannot be written: {error.strerror or error}"
        path = segments.path_of(self._folder, self._begin.number)
        if self._fd >= 0:
            # Half a record would be taken for one that was cut off.
            try:
                os.ftruncate(self._fd, self._size)
            except OSError as failed:
                _LOGGER.error("%s cannot be cut: %s", path, failed.strerror)
        self._close()
        try:
            segments.mark_of(path).touch()
        except OSError as failed:
            _LOGGER.error("%s cannot be marked: %s", path, failed.strerror)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _count_older(self) -> None:
        self._older_bytes = 0
        for number in segments.numbers(self._folder):
            if number != self._begin.number:
                path = segments.path_of(self._folder, number)
                self._older_bytes += path.stat().st_size


def _remove(path: pathlib.Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _LOGGER.warning("%s cannot be deleted: %s", path, error.strerror)


def _view(part: bytes | np.ndarray) -> memoryview:
    return part.data if isinstance(part, np.ndarray) else memoryview(part)
