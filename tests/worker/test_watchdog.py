"""A step or a batch that takes too long, and what becomes of it."""

import threading

import pytest

from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.watchdog import (
    Watchdog,
    WatchedComputing,
    WatchedData,
    watched,
)
from tests.worker.stand_ins import PATIENCE, Data, Ones, batch, signature


class _Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return _Clock()


@pytest.fixture
def hung():
    return []


@pytest.fixture
def watchdog(clock, hung):
    return Watchdog(10.0, lambda *what: hung.append(what), clock=clock)


def test_what_takes_too_long_is_told(watchdog, clock, hung):
    clock.now = 5.0
    with watchdog.watch("a step"):
        clock.now = 15.0
        assert not watchdog.look()
        clock.now = 15.5
        assert watchdog.look()
    assert hung == [("a step", 10.5)]


def test_what_may_last_is_told_once_and_goes_on(clock, hung):
    slow = []
    watchdog = Watchdog(
        10.0,
        lambda *what: hung.append(what),
        lambda *what: slow.append(what),
        clock,
    )
    with watchdog.watch("a hook", may_last=True):
        clock.now = 11.0
        assert not watchdog.look()
        clock.now = 12.0
        assert not watchdog.look()
    with watchdog.watch("a hook", may_last=True):
        clock.now = 23.0
        assert not watchdog.look()
    assert slow == [("a hook", 11.0), ("a hook", 11.0)]
    assert hung == []


def test_what_is_over_counts_no_more(watchdog, clock, hung):
    with pytest.raises(KeyError), watchdog.watch("a step"):
        raise KeyError("mine")
    clock.now = 20.0
    with watchdog.watch("a step"):
        clock.now = 29.0
        assert not watchdog.look()
    assert hung == []


def test_each_thread_is_watched(watchdog, clock, hung):
    inside, over = threading.Event(), threading.Event()

    def work():
        with watchdog.watch("the data"):
            inside.set()
            assert over.wait(PATIENCE)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(PATIENCE)
    clock.now = 9.0
    with watchdog.watch("a step"):
        clock.now = 12.0
        assert watchdog.look()
    over.set()
    thread.join(PATIENCE)
    assert hung == [("the data", 12.0)]
    assert not watchdog.look()


def test_it_looks_by_itself():
    told = threading.Event()
    watchdog = Watchdog(0.01, lambda what, seconds: told.set())
    watchdog.start()
    with watchdog.watch("a step"):
        assert told.wait(PATIENCE)


def test_a_training_step_is_watched(watchdog, clock, hung):
    def hang(train, pulled, again):
        clock.now += 11.0
        watchdog.look()
        raise ValueError("enough")

    ones = Ones(signature(), hang)
    computing = WatchedComputing(ones, watchdog)
    computing.begin_task()
    with pytest.raises(ValueError, match="enough"):
        computing.compute(None, None, again=False)
    assert computing.end_task() == master_pb2.MetricStates()
    assert [what for what, _ in hung] == ["a training step"]


def test_data_are_watched_while_they_are_made(watchdog, clock, hung):
    class Slow(Data):
        def batches(self):
            for made in super().batches():
                clock.now += 4.0
                watchdog.look()
                yield made

    opened = watched(lambda task: Slow([batch([1], 1)] * 5), watchdog)(None)
    assert isinstance(opened, WatchedData)
    for _ in opened.batches():
        # Whoever takes the batches may take its time.
        clock.now += 100.0
        assert not watchdog.look()
    assert hung == []
    assert opened.report().records == 7

    class Hanging(Data):
        def batches(self):
            clock.now += 11.0
            watchdog.look()
            yield from super().batches()

    opened = WatchedData(Hanging([batch([1], 1)]), watchdog)
    assert len(list(opened.batches())) == 1
    assert [what for what, _ in hung] == ["making a batch of records"]


def test_batches_are_closed_with_their_reader(watchdog):
    closed = []

    class Closing(Data):
        def batches(self):
            try:
                yield from super().batches()
            finally:
                closed.append(True)

    batches = WatchedData(Closing([batch([1], 1)] * 3), watchdog).batches()
    next(batches)
    batches.close()
    assert closed == [True]
