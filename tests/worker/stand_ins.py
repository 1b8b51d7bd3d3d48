"""Real shards behind real sockets, and a master that follows a script."""

import asyncio
import pathlib
import tempfile
import threading

import numpy as np

from elastic_keras.config import StalenessOptions, WireOptions
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
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import master_pb2, ps_pb2
from elastic_keras.worker import items
from elastic_keras.worker.client import PsClient
from elastic_keras.worker.grouping import group
from elastic_keras.worker.values import Push, StepGradients

JOB = "job-1"
PATIENCE = 60.0

# A model-zoo module for lines of an id and a label, which evaluation sees
# 100 greater.
MODULE = """
import keras
import tensorflow as tf
import elastic_keras as ek

def custom_model():
    ids = keras.Input((), dtype="int64", name="id")
    rows = ek.layers.Embedding(2, name="rows")(ids)
    return keras.Model({"id": ids}, keras.layers.Dense(1)(rows))

loss = keras.losses.MeanSquaredError()

def optimizer():
    return keras.optimizers.SGD(0.1)

def dataset_fn(dataset, mode, metadata):
    def parse(line):
        fields = tf.io.decode_csv(line, [tf.constant(0, tf.int64), 0.0])
        label = fields[1] + (100.0 if mode == "evaluation" else 0.0)
        return {"id": fields[0]}, tf.reshape(label, [1])
    return dataset.map(parse)
"""


def signature(tables=1, dim=4, dense=((3, 2), (5,)), states=()):
    """Returns a model trained by SGD with rate 1, all values from zero."""
    return ModelSignature(
        seed=0,
        optimizers=(OptimizerSpec("sgd", 1.0),),
        dense=tuple(
            DenseSpec(f"dense_{i}", shape) for i, shape in enumerate(dense)
        ),
        states=tuple(
            StateSpec(f"state_{i}", shape) for i, shape in enumerate(states)
        ),
        tables=tuple(
            TableSpec(f"table_{i}", dim, InitializerSpec("constant", 0.0))
            for i in range(tables)
        ),
    )


class Shards:
    """Shards served from a thread with an event loop of its own."""

    def __init__(self, count, options=None):
        # Not pytest's folder: the path of a socket has to be short.
        self._folder = tempfile.TemporaryDirectory(prefix="ek-")
        self.shards = [
            Shard(i, count, options or StalenessOptions()) for i in range(count)
        ]
        self.addresses = [
            f"unix:{self._folder.name}/ps-{i}.sock" for i in range(count)
        ]
        self._started = threading.Event()
        self._error = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        assert self._started.wait(PATIENCE)
        if self._error is not None:
            raise self._error
        return self

    def __exit__(self, *error):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)
        self._folder.cleanup()

    def _run(self):
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self._error = error
            self._started.set()

    async def _serve(self):
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        service = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]
        served = []
        for shard, address in zip(self.shards, self.addresses, strict=True):
            servicer = ShardServicer(
                shard,
                job_id=JOB,
                snapshots=pathlib.Path(self._folder.name),
                on_failure=self._stop.set,
            )
            server = rpc.make_server(servicer, service, address)
            await server.start()
            served.append((server, servicer))
        self._started.set()
        await self._stop.wait()
        for server, servicer in served:
            await server.stop(None)
            servicer.close()

    def client_of(self, model, **wire):
        """Returns a client that has yet to join."""
        return PsClient(
            self.addresses, model, job_id=JOB, wire=WireOptions(**wire)
        )

    def client(self, model):
        """Returns a client that has joined and offered zeros."""
        client = self.client_of(model)
        client.join()
        client.init_dense(
            np.zeros(_size(model.dense), np.float32),
            np.zeros(_size(model.states), np.float32),
        )
        return client

    def rows(self, table=0):
        """Returns the rows that exist, by id."""
        found = {}
        for shard in self.shards:
            ids, rows, _ = shard._parameters.tables[table].export()
            found.update(zip(ids.tolist(), rows.tolist(), strict=True))
        return found


def _size(specs):
    return sum(int(np.prod(spec.shape)) for spec in specs)


def batch(ids, num_shards, examples=2):
    """Returns a batch that looks up the given ids in one table."""
    grouped, _ = group(np.asarray(ids, np.int64), num_shards)
    return items.Batch(
        data=None, ids=[grouped], inverse=None, examples=examples
    )


def push_of_ones(model, key, made):
    """Returns a push of ones of a batch, from nobody's clock."""
    return Push(
        key=key,
        examples=made.examples,
        member=0,
        step=0,
        versions=(0,) * (len(made.ids[0].bounds) - 1),
        ids=made.ids,
        gradients=StepGradients(
            rows=[
                np.ones((len(ids.ids), model.tables[0].dim), np.float32)
                for ids in made.ids
            ],
            dense=np.ones(_size(model.dense), np.float32),
            state_deltas=np.ones(_size(model.states), np.float32),
        ),
    )


class Data:
    """A task's data: the given batches."""

    def __init__(self, batches, error=None):
        self._batches = batches
        self._error = error

    def batches(self):
        yield from self._batches
        if self._error is not None:
            raise self._error

    def report(self):
        return master_pb2.ReportTaskRequest(records=7)


class Ones:
    """A step whose gradient is 1 for every row and dense element.

    With SGD and rate 1 a row has then moved by minus the number of batches
    that were applied with its id.
    """

    def __init__(self, model, hook=None):
        self._dense = _size(model.dense)
        self._states = _size(model.states)
        self._hook = hook
        self.computed = []

    def begin_task(self):
        self.computed.append("begin")

    def compute(self, train, pulled, *, again):
        if self._hook is not None:
            self._hook(train, pulled, again)
        self.computed.append((train.run.key(train.index), again))
        return StepGradients(
            rows=[np.ones_like(rows) for rows in pulled.rows],
            dense=np.ones(self._dense, np.float32),
            state_deltas=np.ones(self._states, np.float32),
        )

    def end_task(self):
        return master_pb2.MetricStates()


def train_task(task, lease, **fields):
    """Returns a training task."""
    return master_pb2.Task(
        kind=master_pb2.TASK_TRAIN, task=task, lease=lease, **fields
    )


class ScriptedMaster:
    """Hands out the tasks of a script and keeps the members as a master does.

    Args:
        shards: Told of the members.
        tasks: Training tasks; one that is released or fails comes again.
        max_failures: A task that failed as often is not handed out again.
    """

    def __init__(self, shards, tasks, max_failures=1):
        self._shards = shards
        self._changed = threading.Condition()
        self._tasks = list(tasks)
        self._max_failures = max_failures
        self._held = {}
        self._failures = {}
        self._members = 0
        self._announced = 0
        self.reports = []
        self.available = None
        self.evaluations = []
        self.stopped = False
        self.settled = {"done": 0, "returned": 0}

    def get_task(self, *, interrupted=False):
        with self._changed:
            if interrupted:
                return self._interrupting()
            self._changed.wait_for(
                lambda: self._tasks or not self._held, PATIENCE
            )
            if not self._tasks:
                return master_pb2.Task(kind=master_pb2.TASK_STOP)
            task = self._tasks.pop(0)
            if task.kind == master_pb2.TASK_TRAIN:
                if not self._held:
                    self._members += 1
                    self._announce([self._members])
                task.member = self._members
                self._held[task.lease] = task
            return task

    def _interrupting(self):
        if self.evaluations:
            return self.evaluations.pop(0)
        self.available = None
        return master_pb2.Task(kind=master_pb2.TASK_WAIT)

    def _announce(self, members):
        self._announced += 1
        for shard in self._shards:
            shard.set_members(self._announced, members)

    def report(self, request):
        with self._changed:
            self.reports.append(request)
            task = self._held.pop(request.lease, None)
            if task is not None and (request.error or request.released):
                key = task.epoch, task.task
                failed = self._failures.get(key, 0) + bool(request.error)
                self._failures[key] = failed
                if failed < self._max_failures and not self.stopped:
                    again = master_pb2.Task()
                    again.CopyFrom(task)
                    again.lease += 1000
                    again.resumed = True
                    self._tasks.insert(0, again)
            if task is not None and not self._held:
                self._announce([])
            self._changed.notify_all()

    def reserve(self, *, done=0, returned=0, want=0):
        with self._changed:
            self.settled["done"] += done
            self.settled["returned"] += returned
            if not want or self.available is None:
                return master_pb2.ReserveStepsReply(granted=want)
            granted = min(want, self.available)
            self.available -= granted
            return master_pb2.ReserveStepsReply(
                granted=granted,
                evaluate=not granted and not self.stopped,
                stop=not granted and self.stopped,
            )
