"""The staleness policies, one rule at a time."""

import pytest

from elastic_keras.config import StalenessOptions
from elastic_keras.ps.errors import MemberLeftError
from elastic_keras.ps.staleness import HISTOGRAM_SIZE, Staleness


def _staleness(policy: str, bound: int, members=(1, 2)) -> Staleness:
    staleness = Staleness(
        StalenessOptions(staleness_policy=policy, max_staleness=bound)
    )
    staleness.set_members(1, list(members))
    return staleness


def _land(staleness: Staleness, member: int, step: int, pulled: int) -> bool:
    judgement = staleness.judge(member, step, pulled)
    if not judgement.refused:
        staleness.applied([judgement.staleness])
        staleness.finish(member, step)
    return not judgement.refused


def _may(staleness: Staleness, member: int, step: int, again=False) -> bool:
    return staleness.may_pull(member, step, recompute=again)


@pytest.mark.parametrize("bound", [0, 1, 3])
def test_wait_grants_a_pull_within_the_bound_only(bound):
    staleness = _staleness("wait", bound)
    for step in range(bound + 1):
        assert _may(staleness, 1, step)
        _land(staleness, 1, step, 0)
    # Member 2 has finished nothing.
    assert not _may(staleness, 1, bound + 1)
    assert not _may(staleness, 1, bound + 1)
    _may(staleness, 2, 0)
    _land(staleness, 2, 0, 0)
    assert _may(staleness, 1, bound + 1)
    assert not _may(staleness, 1, bound + 2)


def test_wait_counts_the_members_own_steps():
    staleness = _staleness("wait", 1, [1])
    assert _may(staleness, 1, 0)
    assert _may(staleness, 1, 1)
    assert not _may(staleness, 1, 2)


def test_wait_refuses_nothing():
    staleness = _staleness("wait", 0, [1])
    staleness.applied([0] * 50)
    assert not staleness.judge(1, 0, 0).refused


def test_a_leaver_frees_the_others():
    staleness = _staleness("wait", 0)
    _may(staleness, 1, 0)
    _land(staleness, 1, 0, 0)
    assert not _may(staleness, 1, 1)
    staleness.set_members(2, [1])
    assert _may(staleness, 1, 1)


def test_a_joiner_does_not_hold_others_back_more_than_the_slowest():
    staleness = _staleness("wait", 1, [1])
    for step in range(10):
        assert _may(staleness, 1, step)
        _land(staleness, 1, step, step)
    staleness.set_members(2, [1, 2])
    assert _may(staleness, 2, 0)
    assert _may(staleness, 2, 1)
    assert not _may(staleness, 2, 2)
    assert _may(staleness, 1, 11)
    assert not _may(staleness, 1, 12)


@pytest.mark.parametrize("policy", ["wait", "recompute"])
def test_an_unknown_member_waits_and_one_that_left_is_told(policy):
    staleness = _staleness(policy, 4, [1])
    assert not _may(staleness, 9, 0)
    staleness.set_members(2, [1, 9])
    assert _may(staleness, 9, 0)
    staleness.set_members(3, [1])
    with pytest.raises(MemberLeftError, match="Received: member=9"):
        _may(staleness, 9, 1)


@pytest.mark.parametrize("policy", ["dampen", "unbounded"])
def test_the_policies_without_a_wait_never_wait(policy):
    staleness = _staleness(policy, 0, [1])
    assert _may(staleness, 1, 100)
    assert _may(staleness, 9, 100)


@pytest.mark.parametrize(
    ("bound", "tau", "factor"),
    [(2, 2, 1.0), (2, 3, 2 / 3), (2, 10, 0.2), (0, 0, 1.0), (0, 4, 0.25)],
)
def test_dampen_lowers_the_rate(bound, tau, factor):
    staleness = _staleness("dampen", bound)
    staleness.applied([0] * 20)
    judgement = staleness.judge(1, 0, 20 - tau)
    assert judgement.rate_factor == pytest.approx(factor)
    assert judgement.staleness == tau
    assert not judgement.refused


def test_unbounded_leaves_the_rate():
    staleness = _staleness("unbounded", 0)
    staleness.applied([0] * 20)
    assert staleness.judge(1, 0, 0).rate_factor == 1.0


def test_recompute_refuses_beyond_the_bound():
    staleness = _staleness("recompute", 2)
    staleness.applied([0] * 3)
    assert not staleness.judge(1, 0, 1).refused
    assert staleness.judge(1, 1, 0).refused
    assert staleness.refused == 1


def test_the_third_refusal_reserves_the_shard():
    staleness = _staleness("recompute", 0)
    for step in range(3):
        assert staleness.reserved_for is None
        assert _land(staleness, 2, step, step)
        assert not _land(staleness, 1, 0, step)
    assert staleness.reserved_for == (1, 0)
    # Others wait before a new step, are refused, but may recompute.
    assert not _may(staleness, 2, 3)
    assert _may(staleness, 2, 3, again=True)
    assert not _land(staleness, 2, 3, staleness.version)
    # So do the holder's own other steps.
    assert not _land(staleness, 1, 1, staleness.version)
    assert _may(staleness, 1, 0, again=True)
    assert _land(staleness, 1, 0, staleness.version)
    assert staleness.reserved_for is None
    assert _may(staleness, 2, 3)
    assert staleness.maximum == 0


def test_reservations_are_served_in_order():
    staleness = _staleness("recompute", 0, [1, 2, 3])
    staleness.applied([0])
    for member in (1, 2):
        for _ in range(3):
            assert not _land(staleness, member, 0, 0)
    assert staleness.reserved_for == (1, 0)
    assert _land(staleness, 1, 0, 1)
    assert staleness.reserved_for == (2, 0)
    assert not _may(staleness, 3, 0)
    assert _land(staleness, 2, 0, 2)
    assert staleness.reserved_for is None


def test_a_reservation_ends_with_its_member():
    staleness = _staleness("recompute", 0)
    staleness.applied([0])
    for _ in range(3):
        staleness.judge(1, 0, 0)
    assert staleness.reserved_for == (1, 0)
    staleness.set_members(2, [2])
    assert staleness.reserved_for is None
    assert _may(staleness, 2, 0)


def test_nobody_unknown_gets_a_reservation():
    staleness = _staleness("recompute", 0, [2])
    staleness.applied([0])
    for _ in range(5):
        assert staleness.judge(1, 0, 0).refused
    assert staleness.reserved_for is None


def test_the_histogram_counts_applied_pushes():
    staleness = _staleness("unbounded", 0)
    staleness.applied([0, 0, 3])
    staleness.applied([HISTOGRAM_SIZE + 50])
    assert staleness.counts[0] == 2
    assert staleness.counts[3] == 1
    assert staleness.counts[-1] == 1
    assert len(staleness.counts) == HISTOGRAM_SIZE
    assert sum(staleness.counts) == staleness.version == 4
    assert staleness.maximum == HISTOGRAM_SIZE + 50
    assert staleness.total == HISTOGRAM_SIZE + 53


def test_the_bound_is_asserted_where_a_push_is_applied():
    staleness = _staleness("recompute", 2)
    with pytest.raises(AssertionError, match="staleness=3, bound=2"):
        staleness.applied([3])
