"""Address space that is reserved at once and filled page by page.

A table that grows inside a reservation never copies what it holds: the
operating system adds a page when it is first written. Pages that are no
longer needed go back one by one.
"""

import mmap
import os

import numpy as np

_PAGE = mmap.PAGESIZE
_HUGE_PAGE = 2 << 20
# Small tables keep to small pages, so that they use no more than they hold.
_HUGE_FROM = 2 * _HUGE_PAGE
_SMALLEST = 64 << 20


class Reservation:
    """A private, zeroed mapping of which only written pages use memory.

    Args:
        nbytes: Bytes to reserve.
        at_least: Bytes that are enough when `nbytes` are refused; the
            largest of `nbytes`, its half, its quarter ... that the system
            grants is taken.

    Raises:
        MemoryError: Not even `at_least` bytes are granted.
    """

    def __init__(self, nbytes: int, *, at_least: int | None = None) -> None:
        at_least = nbytes if at_least is None else min(at_least, nbytes)
        self._map = _reserve(nbytes, at_least)
        self._released = 0
        if len(self._map) > _HUGE_FROM and hasattr(mmap, "MADV_HUGEPAGE"):
            try:
                self._map.madvise(mmap.MADV_HUGEPAGE, _HUGE_FROM)
            except OSError:
                # A kernel without huge pages: slower, not wrong.
                self._huge = False
            else:
                self._huge = True
        else:
            self._huge = False

    @property
    def nbytes(self) -> int:
        """Bytes reserved, touched or not."""
        return len(self._map)

    def array(self, dtype: np.dtype | type) -> np.ndarray:
        """Returns the reservation as a 1-D array; it keeps the memory."""
        itemsize = np.dtype(dtype).itemsize
        return np.frombuffer(
            self._map, dtype=dtype, count=len(self._map) // itemsize
        )

    def touched(self, start: int, stop: int) -> int:
        """Returns the memory used when bytes [start, stop) are written.

        Args:
            start: First byte; what lies before it was released.
            stop: Byte after the last.
        """
        if stop <= start:
            return 0
        huge = self._huge and stop > _HUGE_FROM
        page = _HUGE_PAGE if huge else _PAGE
        end = min(-(-stop // page) * page, len(self._map))
        return end - self._released

    def release_below(self, stop: int) -> None:
        """Gives pages that lie wholly before byte `stop` back.

        They read as zeros afterwards. Whole huge pages are given back
        where there are any, since tearing one apart is slow.
        """
        page = _HUGE_PAGE if self._huge and stop > _HUGE_FROM else _PAGE
        stop = stop // page * page
        if stop > self._released:
            self._map.madvise(
                mmap.MADV_DONTNEED, self._released, stop - self._released
            )
            self._released = stop


def reservable_bytes() -> int:
    """Returns twice the machine's memory: more can never be filled."""
    return 2 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _reserve(nbytes: int, at_least: int) -> mmap.mmap:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    # Named in the standard library from Python 3.13 on only.
    flags |= getattr(mmap, "MAP_NORESERVE", 0x4000)
    size = _whole_pages(nbytes)
    while True:
        try:
            return mmap.mmap(-1, size, flags=flags)
        except (OSError, OverflowError, ValueError) as error:
            if size <= _whole_pages(at_least):
                raise MemoryError(
                    "The system refuses to reserve memory. "
                    f"Received: nbytes={nbytes}, at_least={at_least}"
                ) from error
            size = max(_whole_pages(size // 2), _whole_pages(at_least))


def _whole_pages(nbytes: int) -> int:
    return max(-(-nbytes // _PAGE), 1) * _PAGE
