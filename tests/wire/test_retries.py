"""Backoff and jitter, without waiting."""

import pytest

from elastic_keras.wire.retries import Retry


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _longest(low: float, high: float) -> float:
    assert low == 0.0
    return high


@pytest.mark.parametrize(
    "code", ["INTERNAL", "INVALID_ARGUMENT", "UNAUTHENTICATED", "CANCELLED"]
)
def test_other_codes_are_final(code):
    assert Retry(1.0, None).pause(code) is None


@pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED"])
def test_pauses_double_up_to_a_bound(code):
    retry = Retry(1.0, None, clock=Clock(), uniform=_longest)
    pauses = [retry.pause(code) for _ in range(40)]
    assert pauses[:4] == [0.05, 0.1, 0.2, 0.4]
    assert pauses[-1] == 2.0
    assert pauses == sorted(pauses)


def test_jitter_takes_the_whole_interval():
    retry = Retry(1.0, None)
    for _ in range(6):
        retry.pause("UNAVAILABLE")
    drawn = [retry.pause("UNAVAILABLE") for _ in range(500)]
    assert min(drawn) < 0.2
    assert max(drawn) > 1.5


def test_it_gives_up_when_its_time_is_over():
    clock = Clock()
    retry = Retry(60.0, 5.0, clock=clock, uniform=_longest)
    assert retry.attempt_timeout() == 5.0
    clock.now += 3.0
    assert retry.attempt_timeout() == pytest.approx(2.0)
    assert retry.pause("UNAVAILABLE") == 0.05
    clock.now += 1.97
    assert retry.pause("UNAVAILABLE") is None


def test_zero_makes_one_attempt_with_the_whole_deadline():
    retry = Retry(60.0, 0.0)
    assert retry.attempt_timeout() == 60.0
    assert retry.pause("UNAVAILABLE") is None


def test_none_never_gives_up():
    clock = Clock()
    retry = Retry(60.0, None, clock=clock)
    clock.now += 1e9
    assert retry.attempt_timeout() == 60.0
    assert retry.pause("UNAVAILABLE") is not None
