"""A shard behind real gRPC, in this process, and requests to it."""

import asyncio
import pathlib
import threading
import time

import numpy as np
import pytest

from elastic_keras.config import StalenessOptions
from elastic_keras.ps.servicer import ShardServicer
from elastic_keras.ps.shard import Shard
from elastic_keras.signature import (
    DenseSpec,
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    StateSpec,
    TableSpec,
)
from elastic_keras.wire import rpc, tensors
from elastic_keras.wire.proto import ps_pb2, tensor_pb2

SERVICE = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]
THREADS = 2
MODEL = ModelSignature(
    seed=3,
    optimizers=(OptimizerSpec("sgd", 0.5),),
    dense=(DenseSpec("kernel", (2, 2)),),
    states=(StateSpec("mean", (3,)),),
    tables=(
        TableSpec("users", 2, InitializerSpec("constant", 1.0)),
        TableSpec("items", 3, InitializerSpec("uniform", -1.0, 1.0)),
    ),
)


class Server:
    """A served shard and a client to it."""

    def __init__(self, folder: str, options: StalenessOptions) -> None:
        self.shard = Shard(0, 1, options)
        self.address = f"unix:{folder}/ps-0.sock"
        self.snapshots = pathlib.Path(folder)
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self.loop.run_forever, daemon=True
        )
        self._thread.start()
        self.servicer: ShardServicer
        self._run(self._start())
        self.client = rpc.Client(self.address, SERVICE, timeout=30.0)

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    async def _start(self) -> None:
        self.failed = threading.Event()
        self.servicer = ShardServicer(
            self.shard,
            job_id="j",
            snapshots=self.snapshots,
            on_failure=self.failed.set,
            threads=THREADS,
        )
        self._server = rpc.make_server(self.servicer, SERVICE, self.address)
        await self._server.start()

    def stop_waiting(self) -> None:
        async def stop() -> None:
            self.servicer.stop_waiting()

        self._run(stop())

    def close(self) -> None:
        self.client.close()
        self.stop_waiting()
        self._run(self._server.stop(5))
        self.servicer.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    def call(self, method, request, **options):
        options.setdefault("retry_for", 0)
        return self.client.call(method, request, **options)

    def status(self) -> ps_pb2.ShardStatus:
        return self.call("GetStatus", tensor_pb2.Empty())

    def wait_for(self, condition) -> None:
        """Asks for the status until it is as wanted."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if condition(self.status()):
                return
        waiting = self.status().waiting_pulls
        raise AssertionError(f"It never came about: {waiting} pulls wait")

    def prepare(self) -> "Server":
        self.call("Join", join_request())
        self.call(
            "InitDense",
            ps_pb2.InitDenseRequest(
                dense=tensors.encode(np.zeros(4, np.float32)),
                states=tensors.encode(np.zeros(3, np.float32)),
            ),
        )
        self.set_members(1, 1, 2)
        return self

    def meet(self, *members: int) -> "Server":
        """Lets members pull for their first step, so that others wait."""
        for member in members:
            self.call("Pull", pull_request(0, member=member))
        return self

    def set_members(self, number: int, *members: int) -> None:
        self.call(
            "SetMembers",
            ps_pb2.SetMembersRequest(number=number, members=members),
        )


def join_request(model: ModelSignature | None = MODEL, **fields):
    request = ps_pb2.ShardJoinRequest(
        job_id="j",
        protocol_version=rpc.PROTOCOL_VERSION,
        signature="" if model is None else model.to_json(),
        num_shards=1,
        shard_index=0,
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return request


def pull_request(step=0, member=1, mode=ps_pb2.TRAIN, ids=(5, 6), **fields):
    request = ps_pb2.PullRequest(
        mode=mode, member=member, step=step, dense_version=-1, **fields
    )
    for table in (0, 1):
        request.tables.add(
            table=table, ids=tensors.encode(np.array(ids, np.int64))
        )
    return request


def push_request(batch=0, member=1, version=0, value=1.0, **encoding):
    request = ps_pb2.PushRequest(
        key=ps_pb2.BatchKey(epoch=0, task=member, batch=batch),
        examples=8,
        member=member,
        step=batch,
        pull_version=version,
        dense=tensors.encode(np.full(4, value, np.float32), **encoding),
        state_deltas=tensors.encode(np.full(3, value, np.float32)),
    )
    request.tables.add(
        table=0,
        ids=tensors.encode(np.array([5], np.int64)),
        gradients=tensors.encode(
            np.full((1, 2), value, np.float32), **encoding
        ),
    )
    return request


def read(tensor: tensor_pb2.Tensor) -> np.ndarray:
    return tensors.decode(tensor, name="reply", dtype=np.float32)


def error_of(server: Server, method: str, request) -> rpc.RpcError:
    with pytest.raises(rpc.RpcError) as caught:
        server.call(method, request)
    return caught.value
