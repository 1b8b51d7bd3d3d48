import pytest

from elastic_keras.master.stats import HeartbeatStats
from elastic_keras.wire.proto import master_pb2


def _beat(steps, examples, loss_sum=0.0, **fields):
    return master_pb2.HeartbeatRequest(
        steps=steps, examples=examples, loss_sum=loss_sum, **fields
    )


def test_speed_is_that_of_the_last_seconds():
    stats = HeartbeatStats(window=10.0)
    assert stats.examples_per_second(5.0) == 0
    stats.add(0, _beat(0, 0), 0.0)
    for now in range(1, 21):
        stats.add(0, _beat(1, 100), float(now))
    assert stats.examples_per_second(20.0) == pytest.approx(100, rel=0.2)
    assert stats.examples == 2000
    assert stats.steps == 20
    # Nothing for a while: the speed falls to nothing.
    assert stats.examples_per_second(40.0) == 0


def test_speed_is_right_from_the_first_steps_on():
    stats = HeartbeatStats(window=10.0)
    # A model takes its time to be built.
    for now in range(30):
        stats.add(0, _beat(0, 0, seconds=1.0), float(now))
    for now in (30, 31):
        stats.add(0, _beat(1, 100, seconds=1.0), float(now))
        assert stats.examples_per_second(now) == pytest.approx(100)


def test_a_forecast_waits_for_a_speed():
    stats = HeartbeatStats(window=10.0, settling=5.0)
    stats.add(0, _beat(0, 0, seconds=1.0), 0.0)
    assert not stats.settled(9.0)
    stats.add(0, _beat(1, 100, seconds=1.0), 10.0)
    assert not stats.settled(13.5)
    assert stats.settled(14.0)


def test_the_speed_is_taken_anew_after_an_evaluation():
    stats = HeartbeatStats(window=10.0, settling=5.0)
    for now in range(20):
        stats.add(0, _beat(1, 100, seconds=1.0), float(now))
    stats.rest()
    assert stats.examples_per_second(20.0) == 0
    assert not stats.settled(20.0)
    stats.add(0, _beat(1, 100, seconds=1.0), 30.0)
    assert stats.examples_per_second(30.0) == pytest.approx(100)
    assert stats.examples == 2100


def test_loss_is_a_mean_over_steps():
    stats = HeartbeatStats()
    assert stats.loss is None
    stats.add(0, _beat(1, 8, loss_sum=4.0), 0.0)
    stats.add(1, _beat(3, 24, loss_sum=2.0), 0.5)
    assert stats.loss == pytest.approx(1.5)


def test_metrics_are_means_over_live_workers():
    stats = HeartbeatStats()
    stats.add(0, _beat(1, 1, metrics={"auc": 0.5}), 0.0)
    stats.add(1, _beat(1, 1, metrics={"auc": 0.7}), 0.0)
    stats.add(1, _beat(1, 1), 0.1)
    assert stats.metrics == {"auc": pytest.approx(0.6)}
    stats.lose(0)
    assert stats.metrics == {"auc": pytest.approx(0.7)}


def test_take_gives_what_is_new():
    stats = HeartbeatStats()
    pull = master_pb2.LatencyStats(
        count=2, seconds=0.4, max_seconds=0.3, bytes=10
    )
    stats.add(3, _beat(1, 4, pull=pull), 0.0)
    stats.add(3, _beat(2, 8, pull=pull), 0.1)
    (interval,) = stats.take().values()
    assert (interval.steps, interval.examples) == (3, 12)
    assert interval.pull.count == 4
    assert interval.pull.seconds == pytest.approx(0.8)
    assert interval.pull.max_seconds == pytest.approx(0.3)
    assert interval.pull.bytes == 20
    assert stats.take() == {}
