"""A small model's shard without sockets, and pushes to it."""

import dataclasses

import numpy as np

from elastic_keras import routing
from elastic_keras.config import StalenessOptions
from elastic_keras.ps.push import Gradients, Push, Rows
from elastic_keras.ps.shard import Shard
from elastic_keras.signature import (
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    StateSpec,
    TableSpec,
)

SGD = OptimizerSpec("sgd", 0.5, hyper={"momentum": 0.0, "nesterov": 0.0})
MODEL = ModelSignature(
    seed=3,
    optimizers=(SGD,),
    dense=(DenseSpec("kernel", (2, 2)), DenseSpec("bias", (2,))),
    states=(StateSpec("mean", (3,)),),
    tables=(
        TableSpec("users", 2, InitializerSpec("constant", 1.0)),
        TableSpec("items", 3, InitializerSpec("uniform", -1.0, 1.0)),
    ),
)


def make_shard(model: ModelSignature = MODEL, **options) -> Shard:
    shard = Shard(0, 1, StalenessOptions(**options))
    shard.adopt(model)
    placement = routing.place(model, 1)[0]
    shard.init_dense(
        np.zeros(placement.dense_size, np.float32),
        np.zeros(placement.states_size, np.float32),
    )
    shard.set_members(1, [1, 2])
    return shard


def gradients(
    users=(), rows=1.0, dense=1.0, states=0.0, table: int = 0
) -> Gradients:
    ids = np.asarray(users, np.int64)
    dim = MODEL.tables[table].dim
    return Gradients(
        [Rows(table, ids, np.full((len(ids), dim), rows, np.float32))],
        np.full(6, dense, np.float32),
        np.full(3, states, np.float32),
    )


def make_push(batch=0, what: Gradients | None = None, **fields) -> Push:
    push = Push(
        epoch=0,
        task=0,
        batch=batch,
        examples=8,
        member=1,
        step=batch,
        pull_version=0,
        gradients=gradients() if what is None else what,
    )
    return dataclasses.replace(push, **fields)


def read(shard: Shard):
    """Everything that a push could have changed."""
    parameters = shard._parameters
    exports = []
    for table in parameters.tables:
        ids, weights, slots = table.export()
        order = np.argsort(ids)
        exports.append((ids[order].tolist(), weights[order].tolist()))
        exports.append({n: s[order].tolist() for n, s in slots.items()})
    return (
        parameters.dense.values.tolist(),
        parameters.dense.states.tolist(),
        {n: s.tolist() for n, s in parameters.dense.slots().items()},
        exports,
        shard._books._ledger.to_state(),
        shard._updates.buffer.to_state()[0],
        # The memory in use depends on what the kernel has paged in.
        dataclasses.replace(
            shard.report(), nbytes=0, tables=(), pulled_bytes=0
        ),
    )


def users(shard: Shard, *ids: int) -> np.ndarray:
    return shard.pull([(0, np.array(ids, np.int64))]).rows[0]
