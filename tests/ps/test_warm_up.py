"""After warming up nothing is left to compile."""

import numba
import numpy as np

from elastic_keras.ps import (
    index_insert,
    index_search,
    initializers,
    table,
)
from elastic_keras.ps.dense import DenseParameters
from elastic_keras.ps.optimizers import kernels
from elastic_keras.ps.optimizers.plan import ALGORITHMS
from elastic_keras.ps.table import Table
from elastic_keras.ps.warm_up import warm_up
from elastic_keras.routing import place
from elastic_keras.signature import (
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    TableSpec,
)


def _kernels():
    return {
        (module.__name__, name): len(value.nopython_signatures)
        for module in (index_insert, index_search, initializers, table, kernels)
        for name, value in vars(module).items()
        if isinstance(value, numba.core.dispatcher.Dispatcher)
    }


def test_nothing_is_compiled_afterwards():
    warm_up()
    before = _kernels()
    entry = {"find", "find_or_insert", "move_all", "fill", "update_rows"}
    entry |= {"update_slice", "_read_rows", "_begin_rows"}
    assert entry <= {name for (_, name), count in before.items() if count}
    ids = np.arange(50_000, dtype=np.int64)
    readonly = np.frombuffer(ids.tobytes(), dtype=np.int64)
    for name in ALGORITHMS:
        optimizer = OptimizerSpec(name, 0.1, weight_decay=0.1, use_ema=True)
        spec = TableSpec("t", 3, InitializerSpec("normal", 0.0, 1.0))
        rows = Table(spec, optimizer, seed=0, table_index=0)
        for some in (ids, readonly, ids[::2]):
            gradients = np.ones((len(some), 3), np.float32)
            rows.apply(some, gradients, learning_rate=0.1)
            rows.pull(some)
        signature = ModelSignature(
            seed=0, optimizers=(optimizer,), dense=(DenseSpec("v", (2, 2)),)
        )
        dense = DenseParameters(place(signature, 1)[0], signature)
        gradients = np.ones(4, np.float32)
        dense.apply(gradients, learning_rates=[0.1], iteration=0)
    assert _kernels() == before
