"""Reserved memory, beside what the system says is used."""

import pathlib

import numpy as np
import pytest

from elastic_keras.ps.memory import Reservation


def _resident(array):
    """Bytes in memory of the mapping, and of neighbours the kernel merged."""
    address = array.__array_interface__["data"][0]
    resident, inside = 0, False
    for line in pathlib.Path("/proc/self/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            start, stop = (int(x, 16) for x in words[0].split("-"))
            inside = start < address + array.nbytes and address < stop
        elif words[0] == "Rss:" and inside:
            resident += 1024 * int(words[1])
    return resident


@pytest.mark.parametrize("size", [1 << 20, 64 << 20])
def test_only_touched_pages_use_memory(size):
    memory = Reservation(size)
    array = memory.array(np.uint8)
    assert len(array) == size
    neighbours = _resident(array)
    assert neighbours < size // 10
    stop = size // 3
    array[:stop] = 7
    used = _resident(array) - neighbours
    assert stop <= used <= memory.touched(0, stop) + 65536
    assert memory.touched(0, stop) <= used + (2 << 20)
    memory.release_below(stop // 2)
    left = _resident(array) - neighbours
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
