"""Reserved memory, beside what the system says is used."""

import mmap

import numpy as np
import pytest

from elastic_keras.ps.memory import Reservation


def _resident(array):
    """Bytes of an array's pages that are in memory, by the kernel's map."""
    first = array.__array_interface__["data"][0] // mmap.PAGESIZE
    count = -(-array.nbytes // mmap.PAGESIZE)
    with open("/proc/self/pagemap", "rb") as pages:
        pages.seek(8 * first)
        entries = np.frombuffer(pages.read(8 * count), np.uint64)
    # Bit 63: the page is present.
    return int(np.count_nonzero(entries >> np.uint64(63))) * mmap.PAGESIZE


@pytest.mark.parametrize("size", [1 << 20, 64 << 20])
def test_only_touched_pages_use_memory(size):
    memory = Reservation(size)
    array = memory.array(np.uint8)
    assert len(array) == size
    assert _resident(array) == 0
    stop = size // 3
    array[:stop] = 7
    used = _resident(array)
    assert stop <= used <= memory.touched(0, stop) + 65536
    assert memory.touched(0, stop) <= used + (2 << 20)
    memory.release_below(stop // 2)
    left = _resident(array)
    assert left < 0.7 * used
    assert not array[: stop // 4].any()
    assert array[stop // 2 : stop].all()
    assert memory.touched(stop // 2, stop) <= left + (2 << 20)


def test_takes_less_when_the_system_refuses():
    memory = Reservation(1 << 62, at_least=1 << 20)
    assert 1 << 20 <= memory.nbytes < 1 << 62
    memory.array(np.float32)[-1] = 1


def test_says_when_even_the_least_is_refused():
    with pytest.raises(MemoryError, match=f"nbytes={1 << 62}"):
        Reservation(1 << 62)
