import pytest

from elastic_keras.config import StalenessOptions
from elastic_keras.worker.window import window


@pytest.mark.parametrize(
    ("policy", "bound", "workers", "expected"),
    [
        ("wait", 0, 1, 2),
        ("wait", 1, 3, 3),
        ("wait", 100, 1, 4),
        ("recompute", 0, 1, 1),
        ("recompute", 3, 2, 2),
        ("recompute", 3, 8, 1),
        ("recompute", 100, 1, 4),
        ("recompute", 3, 0, 4),
        ("dampen", 0, 5, 3),
        ("unbounded", 0, 5, 3),
    ],
)
def test_steps_in_flight(policy, bound, workers, expected):
    options = StalenessOptions(max_staleness=bound, staleness_policy=policy)
    assert window(options, workers) == expected


@pytest.mark.parametrize("bound", range(12))
@pytest.mark.parametrize("workers", range(1, 12))
def test_recomputing_workers_stay_within_the_bound_together(bound, workers):
    options = StalenessOptions(
        max_staleness=bound, staleness_policy="recompute"
    )
    together = workers * window(options, workers)
    # One step each is the least; more only where the bound lets it through.
    assert together <= max(bound + 1, workers)
