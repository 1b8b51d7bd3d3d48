"""How fast each worker goes, from made-up heartbeats."""

import pytest

from elastic_keras.master.paces import Pace, Paces
from elastic_keras.wire.proto import master_pb2


def _beat(steps, *, computing, pulling, seconds=1.0):
    return master_pb2.HeartbeatRequest(
        steps=steps,
        examples=10 * steps,
        seconds=seconds,
        computing_seconds=computing,
        pull=master_pb2.LatencyStats(count=steps, seconds=pulling),
    )


def test_a_worker_never_heard_of_has_no_pace():
    paces = Paces()
    assert paces.of(3, 1.0) == Pace()
    assert paces.indexes == frozenset()


def test_the_present_speed_forgets_and_the_sums_do_not():
    paces = Paces(window=10.0)
    for now in range(20):
        paces.add(0, _beat(5, computing=0.5, pulling=0.0), float(now))
    pace = paces.of(0, 19.0)
    assert (pace.steps, pace.examples) == (100, 1000)
    assert pace.examples_per_second == pytest.approx(50)
    later = paces.of(0, 60.0)
    assert (later.steps, later.examples_per_second) == (100, 0)
    assert later.own_seconds == later.pull_seconds == 0


def test_a_beat_without_steps_slows_down():
    paces = Paces()
    paces.add(0, _beat(4, computing=0.4, pulling=0.0), 1.0)
    paces.add(0, _beat(0, computing=0.0, pulling=0.0), 2.0)
    assert paces.of(0, 2.0).examples_per_second == pytest.approx(20)


def test_who_makes_the_others_wait():
    # All at 4 steps a second. By its records: its pulls are granted at once.
    paces = Paces()
    paces.add(0, _beat(4, computing=0.2, pulling=0.02), 1.0)
    paces.add(1, _beat(4, computing=0.2, pulling=0.9), 1.0)
    slow, fast = (paces.of(index, 1.0).own_seconds for index in (0, 1))
    assert slow == pytest.approx(0.245)
    assert fast == pytest.approx(0.05)
    # By its steps, with S=0: its pulls wait for its own pushes.
    paces.rest()
    paces.add(0, _beat(4, computing=0.8, pulling=0.9), 2.0)
    paces.add(1, _beat(4, computing=0.2, pulling=0.9), 2.0)
    slow, fast = (paces.of(index, 2.0).own_seconds for index in (0, 1))
    assert slow == pytest.approx(0.2)
    assert fast == pytest.approx(0.05)


def test_an_evaluation_is_no_slowness():
    paces = Paces()
    paces.add(0, _beat(4, computing=0.4, pulling=0.0), 1.0)
    paces.add(0, _beat(0, computing=0.0, pulling=0.0, seconds=9.0), 9.0)
    paces.rest()
    assert paces.of(0, 9.0).examples_per_second == 0
    paces.add(0, _beat(4, computing=0.4, pulling=0.0), 10.0)
    assert paces.of(0, 10.0).examples_per_second == pytest.approx(40)
