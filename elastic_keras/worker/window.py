"""How many steps a worker has in flight."""

from elastic_keras.config import StalenessOptions

# One batch pulled, one computed, one pushed, one to spare.
_MOST = 4


def window(options: StalenessOptions, num_workers: int) -> int:
    """Returns the most steps in flight that help under a policy.

    Under `wait` the shards hold pulls back, so a pull may lie there early:
    it is answered the moment the bound allows. Under `recompute` each step
    in flight anywhere makes the others staler, so all workers together have
    no more in flight than the bound lets through.

    Args:
        options: The staleness bound.
        num_workers: Workers alive.
    """
    bound = options.max_staleness
    if options.staleness_policy == "wait":
        return min(bound + 2, _MOST)
    if options.staleness_policy == "recompute":
        return min(max((bound + 1) // max(num_workers, 1), 1), _MOST)
    return _MOST - 1
