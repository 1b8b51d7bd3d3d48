"""Readers together, writers alone."""

import threading

import pytest

from elastic_keras.ps.lock import ReadWriteLock


def _thread(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_readers_read_together():
    lock, inside = ReadWriteLock(), threading.Barrier(3, timeout=30)

    def read():
        with lock.reading():
            inside.wait()

    threads = [_thread(read) for _ in range(3)]
    for thread in threads:
        thread.join(30)
    assert not inside.broken


def test_nothing_is_lost_between_writers_and_readers_see_whole_writes():
    lock = ReadWriteLock()
    pair = [0, 0]
    torn = []

    def write():
        for _ in range(500):
            with lock.writing():
                pair[0] += 1
                pair[1] += 1

    def read():
        for _ in range(500):
            with lock.reading():
                if pair[0] != pair[1]:
                    torn.append(tuple(pair))

    threads = [_thread(work) for work in (write, read, write, read)]
    for thread in threads:
        thread.join(60)
    assert pair == [1000, 1000]
    assert not torn


def test_a_waiting_writer_goes_before_a_later_reader():
    lock = ReadWriteLock()
    order = []
    first_reads, writer_waits = threading.Event(), threading.Event()
    release = threading.Event()

    def first():
        with lock.reading():
            first_reads.set()
            assert release.wait(30)

    def write():
        writer_waits.set()
        with lock.writing():
            order.append("write")

    def later():
        with lock.reading():
            order.append("read")

    threads = [_thread(first)]
    assert first_reads.wait(30)
    threads.append(_thread(write))
    assert writer_waits.wait(30)
    while not lock._waiting_writers:
        threads[1].join(0.001)
    threads.append(_thread(later))
    release.set()
    for thread in threads:
        thread.join(30)
    assert order == ["write", "read"]


@pytest.mark.parametrize("kind", ["reading", "writing"])
def test_is_free_again_after_an_exception(kind):
    lock = ReadWriteLock()
    with pytest.raises(KeyError), getattr(lock, kind)():
        raise KeyError
    with lock.writing():
        pass
