"""Tells one state of a shard from another."""

import hashlib


def digest(shard) -> str:
    """Returns a fingerprint of all that a push may change."""
    seen = hashlib.sha256()
    parameters = shard._parameters
    if parameters is not None:
        for table in parameters.tables:
            ids, weights, slots = table.export()
            for array in (ids, weights, *slots.values()):
                seen.update(array.tobytes())
        dense = parameters.dense
        for array in (dense.values, dense.states, *dense.slots().values()):
            seen.update(array.tobytes())
        seen.update(repr(parameters.set_rates).encode())
        seen.update(repr(parameters.iterations).encode())
        seen.update(parameters.signature.to_json().encode())
    report = vars(shard.report()).copy()
    # Memory and traffic are no state of the model.
    for name in ("nbytes", "pulled_bytes", "pushed_bytes"):
        del report[name]
    seen.update(repr(report).encode())
    for task in range(4):
        seen.update(repr(shard.progress(0, task)).encode())
    return seen.hexdigest()
