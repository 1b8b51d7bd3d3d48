"""When a process that died is started again."""

from elastic_keras.cluster.restarts import Restarts


def test_delay_doubles_and_is_bounded():
    restarts = Restarts(limit=1000)
    delays = [
        restarts.died("worker-0", ran_for=1.0, steps=step) for step in range(10)
    ]
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays[-1] == 30.0


def test_each_process_has_its_own_delay():
    restarts = Restarts()
    restarts.died("worker-0", ran_for=1.0, steps=1)
    assert restarts.died("worker-1", ran_for=1.0, steps=2) == 0.5


def test_long_run_starts_over():
    restarts = Restarts()
    restarts.died("worker-0", ran_for=1.0, steps=1)
    assert restarts.died("worker-0", ran_for=600.0, steps=2) == 0.5


def test_gives_up_without_progress():
    restarts = Restarts(limit=2)
    assert restarts.died("worker-0", ran_for=1.0, steps=4) is not None
    assert restarts.died("worker-1", ran_for=1.0, steps=4) is not None
    assert restarts.died("worker-0", ran_for=1.0, steps=4) is None


def test_a_step_in_between_is_progress():
    restarts = Restarts(limit=1)
    for step in range(20):
        assert restarts.died("worker-0", ran_for=1.0, steps=step) is not None


def test_counts_by_role():
    restarts = Restarts()
    restarts.restarted("worker")
    restarts.restarted("worker")
    assert restarts.counts == {"worker": 2, "ps": 0, "master": 0}
