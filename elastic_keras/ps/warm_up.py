"""Loads the kernels before a shard says that it is ready."""

import numpy as np

from elastic_keras.ps.dense import DenseParameters
from elastic_keras.ps.index import Index
from elastic_keras.ps.table import Table
from elastic_keras.routing import place
from elastic_keras.signature import (
    DenseSpec,
    ModelSignature,
    OptimizerSpec,
    TableSpec,
)


def warm_up() -> None:
    """Compiles every kernel, or loads it from numba's cache on disk.

    Without it the first pull and push of a shard would look like a hang.
    """
    optimizer = OptimizerSpec("sgd", learning_rate=1.0)
    table = Table(TableSpec("table", dim=1), optimizer, seed=0, table_index=0)
    ids = np.zeros(1, dtype=np.int64)
    table.apply(ids, np.zeros((1, 1), dtype=np.float32), learning_rate=1.0)
    table.pull(ids)
    Index.warm_up()
    signature = ModelSignature(
        seed=0, optimizers=(optimizer,), dense=(DenseSpec("dense", (1,)),)
    )
    dense = DenseParameters(place(signature, 1)[0], signature)
    dense.apply(
        np.zeros(1, dtype=np.float32), learning_rates=(1.0,), iteration=0
    )
