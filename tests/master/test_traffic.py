"""The present load of shards, from their counts."""

import pytest

from elastic_keras.master.traffic import Traffic
from elastic_keras.wire.proto import ps_pb2


def _statuses(*pulled):
    return [
        ps_pb2.ShardStatus(pulled_bytes=count, pushed_bytes=2 * count)
        for count in pulled
    ]


def test_one_report_makes_no_rate():
    traffic = Traffic()
    assert traffic.rates() == []
    traffic.add(_statuses(1, 2), 0.0)
    assert traffic.rates() == []


def test_each_shard_has_its_rate():
    traffic = Traffic()
    traffic.add(_statuses(0, 100), 1.0)
    traffic.add(_statuses(50, 400), 3.0)
    assert traffic.rates() == [(25, 50), (150, 300)]


def test_the_rate_is_that_of_the_window():
    traffic = Traffic(window=10.0)
    for now in range(0, 51):
        traffic.add(_statuses(1000 * min(now, 40)), float(now))
    # Nothing since 40.
    assert traffic.rates() == [(0, 0)]
    traffic.add(_statuses(40_000 + 1100), 51.0)
    (rate,) = traffic.rates()
    assert rate.pulled == pytest.approx(110)


def test_a_shard_that_counts_anew_has_no_negative_rate():
    traffic = Traffic()
    traffic.add(_statuses(1000), 0.0)
    traffic.add(_statuses(10), 1.0)
    assert traffic.rates() == [(0, 0)]
