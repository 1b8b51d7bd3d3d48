from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_keras.master.steps import StepBudget


def _budget(evaluation_steps=0, max_steps=0):
    return StepBudget(evaluation_steps=evaluation_steps, max_steps=max_steps)


def test_without_options_steps_are_free():
    budget = _budget()
    assert not budget.needed
    assert budget.grant(1, 1000, num_workers=2) == 1000
    assert not budget.at_boundary
    assert not budget.finished


def test_no_step_beyond_the_boundary():
    budget = _budget(evaluation_steps=10)
    assert budget.grant(1, 4, num_workers=1) == 4
    assert budget.grant(1, 99, num_workers=1) == 3
    assert budget.grant(2, 99, num_workers=1) == 1
    assert budget.grant(2, 99, num_workers=1) == 1
    assert budget.grant(2, 99, num_workers=1) == 1
    assert budget.grant(2, 99, num_workers=1) == 0
    budget.settle(1, done=7, returned=0)
    assert not budget.at_boundary
    budget.settle(2, done=2, returned=1)
    assert not budget.at_boundary
    assert budget.grant(1, 1, num_workers=1) == 1
    budget.settle(1, done=1, returned=0)
    assert budget.at_boundary
    budget.advance()
    assert not budget.at_boundary
    assert budget.boundary == 20


def test_max_steps_cuts_the_last_interval():
    budget = _budget(evaluation_steps=10, max_steps=25)
    boundaries = []
    while not budget.finished:
        boundaries.append(budget.boundary)
        granted = 1
        while granted:
            granted = budget.grant(1, 100, num_workers=1)
            budget.settle(1, done=granted, returned=0)
        assert budget.at_boundary
        budget.advance()
    assert boundaries == [10, 20, 25]
    assert budget.grant(1, 1, num_workers=1) == 0


def test_a_share_is_left_for_others():
    budget = _budget(max_steps=100)
    assert budget.grant(1, 100, num_workers=5) == 10


def test_more_settled_than_granted_does_not_count():
    budget = _budget(max_steps=10)
    budget.grant(1, 2, num_workers=1)
    budget.settle(1, done=5, returned=5)
    assert budget.done == 2
    assert budget.outstanding(1) == 0


def test_steps_of_a_lost_worker_wait_for_the_ledgers():
    budget = _budget(max_steps=10)
    budget.grant(1, 3, num_workers=1)
    budget.grant(2, 2, num_workers=1)
    budget.lose(1)
    # No step starts before the ledgers were asked, at rest.
    assert budget.grant(3, 1, num_workers=1) == 0
    assert not budget.asks_ledgers
    budget.settle(2, done=2, returned=0)
    assert budget.asks_ledgers
    assert not budget.at_boundary
    # One of the three was done, one is pushed to some shards only.
    budget.resolve(3, {(0, 4): 1})
    assert budget.done == 3
    assert budget.available == 6
    assert budget.owed == {(0, 4)}
    total = 0
    while granted := budget.grant(3, 9, num_workers=1):
        total += granted
    assert total == 6
    # The last step is for who takes the task.
    assert budget.grant(2, 9, num_workers=1, task=(0, 4)) == 1
    assert budget.owed == frozenset()


def test_a_lost_worker_without_steps_holds_nothing_up():
    budget = _budget(max_steps=10)
    budget.grant(1, 3, num_workers=1)
    budget.settle(1, done=3, returned=0)
    budget.lose(1)
    assert not budget.asks_ledgers
    assert budget.available == 7


def test_a_task_that_is_done_is_owed_nothing():
    budget = _budget(max_steps=2)
    budget.resolve(1, {(0, 0): 1})
    assert budget.available == 0
    budget.forgive((0, 0))
    assert budget.available == 1


def test_a_kept_step_that_comes_back_is_kept_again():
    budget = _budget(max_steps=3)
    budget.resolve(1, {(0, 0): 1})
    assert budget.grant(1, 2, num_workers=1, task=(0, 0)) == 1
    assert budget.grant(1, 1, num_workers=1, task=(0, 0)) == 1
    budget.settle(1, done=0, returned=1)
    assert budget.owed == {(0, 0)}
    # Nobody else gets it in the meantime.
    assert budget.available == 0
    budget.settle(1, done=0, returned=1)
    assert budget.available == 1
    assert budget.grant(2, 2, num_workers=1, task=(0, 0)) == 1
    budget.settle(2, done=1, returned=0)
    assert budget.owed == frozenset()
    assert budget.available == 1


def test_a_kept_step_that_comes_back_after_its_task_is_free():
    budget = _budget(max_steps=2)
    budget.resolve(1, {(0, 0): 1})
    assert budget.grant(1, 2, num_workers=1, task=(0, 0)) == 1
    budget.forgive((0, 0))
    budget.settle(1, done=0, returned=1)
    assert budget.owed == frozenset()
    assert budget.available == 1


def test_the_ledgers_have_the_last_word_on_what_is_kept():
    budget = _budget(max_steps=4)
    budget.resolve(1, {(0, 0): 2, (0, 1): 1})
    budget.ask()
    budget.resolve(3, {(0, 0): 0})
    assert budget.owed == {(0, 1)}


@settings(max_examples=300, deadline=None)
@given(
    evaluation_steps=st.integers(0, 7),
    max_steps=st.integers(0, 40),
    moves=st.lists(
        st.tuples(
            st.sampled_from(["grant", "done", "return"]),
            st.integers(1, 3),
            st.integers(1, 6),
        ),
        max_size=120,
    ),
)
def test_every_evaluation_is_at_a_multiple(evaluation_steps, max_steps, moves):
    budget = _budget(evaluation_steps, max_steps)
    started = settled = 0
    seen = []
    for kind, worker, number in moves:
        if kind == "grant":
            started += budget.grant(worker, number, num_workers=3)
        elif kind == "done":
            number = min(number, budget.outstanding(worker))
            budget.settle(worker, done=number, returned=0)
            settled += number
        else:
            number = min(number, budget.outstanding(worker))
            budget.settle(worker, done=0, returned=number)
            started -= number
        assert budget.boundary is None or started <= budget.boundary
        if budget.at_boundary:
            assert started == settled == budget.done
            seen.append(budget.done)
            if budget.finished:
                break
            budget.advance()
    n = evaluation_steps or 10**9
    expected = [
        s for s in range(1, settled + 1) if s % n == 0 or s == max_steps
    ]
    if evaluation_steps or max_steps:
        # The last one is only seen once everything is settled.
        assert seen == [s for s in expected if s in seen]
        assert expected[: len(seen)] == seen
