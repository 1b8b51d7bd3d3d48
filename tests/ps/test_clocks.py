"""Members and their clocks."""

import hypothesis.strategies as st
from hypothesis import given

from elastic_keras.ps.clocks import Clocks


def _with(*members: int) -> Clocks:
    clocks = Clocks()
    clocks.set_members(1, members)
    return clocks


def test_a_clock_counts_finished_steps():
    clocks = _with(7)
    clocks.finish(7, 0)
    clocks.finish(7, 1)
    assert clocks.clock(7) == 2
    assert clocks.minimum() == 2


def test_a_repeated_step_counts_once():
    clocks = _with(7)
    for _ in range(3):
        clocks.finish(7, 0)
    assert clocks.clock(7) == 1


def test_a_gap_holds_the_clock_until_it_is_filled():
    clocks = _with(7)
    clocks.finish(7, 0)
    clocks.finish(7, 2)
    clocks.finish(7, 3)
    assert clocks.clock(7) == 1
    clocks.finish(7, 1)
    assert clocks.clock(7) == 4


def test_a_joiner_starts_at_the_minimum():
    clocks = _with(1, 2)
    for step in range(5):
        clocks.finish(1, step)
    for step in range(3):
        clocks.finish(2, step)
    clocks.set_members(2, [1, 2, 9])
    assert clocks.clock(9) == 3
    assert clocks.position(9, 0) == 3


def test_who_leaves_does_not_hold_the_minimum():
    clocks = _with(1, 2)
    clocks.finish(1, 0)
    assert clocks.minimum() == 0
    clocks.set_members(2, [1])
    assert clocks.minimum() == 1
    assert clocks.has_left(2)
    assert not clocks.knows(2)
    # A push still under way when its worker was lost.
    clocks.finish(2, 0)
    assert clocks.minimum() == 1


def test_an_older_list_is_ignored():
    clocks = Clocks()
    assert clocks.set_members(5, [1])
    assert not clocks.set_members(4, [2])
    assert not clocks.set_members(5, [2])
    assert clocks.members == {1}
    assert clocks.number == 5


def test_a_member_met_late_counts_from_where_it_was_met():
    # A shard that was restarted while the member was at step 57.
    clocks = _with(1, 2)
    clocks.finish(2, 0)
    assert clocks.position(1, 57) == 0
    clocks.finish(1, 56)
    assert clocks.clock(1) == 0
    clocks.finish(1, 57)
    assert clocks.clock(1) == 1


def test_no_members_no_bound():
    assert Clocks().minimum() == 0


@given(st.permutations(range(8)))
def test_any_order_of_steps_ends_at_the_same_clock(steps):
    clocks = _with(1)
    clocks.position(1, 0)
    done: set[int] = set()
    for step in steps:
        clocks.finish(1, step)
        done.add(step)
        gap = next(i for i in range(9) if i not in done)
        assert clocks.clock(1) == gap
