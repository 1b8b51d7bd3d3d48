"""Measures what a call costs on one host, and over TCP.

    python scripts/benchmark_calls.py [--rounds=5] [--calls=1000] [--rows=20000]

Two shards, each a process of its own, one on a Unix socket and one on TCP,
are called in turns. A small call asks a question. A pull reads rows of width
16: on one host they come through shared memory, over TCP through the
connection. Beside them stands what the kernel itself takes for a byte there
and back between two processes without gRPC. Printed is the time of a call,
the median of the rounds.
"""

import json
import multiprocessing
import pathlib
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
from absl import app, flags
from bench_shard import Shard

from elastic_keras.config import StalenessOptions, WireOptions
from elastic_keras.signature import ModelSignature, OptimizerSpec, TableSpec
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import ps_pb2
from elastic_keras.worker.client import PsClient
from elastic_keras.worker.grouping import group

_FLAGS = flags.FLAGS
flags.DEFINE_integer("rounds", 5, "Turns of each side.")
flags.DEFINE_integer("calls", 1000, "Small calls of a turn.")
flags.DEFINE_integer("pulls", 100, "Pulls of a turn.")
flags.DEFINE_integer("rows", 20_000, "Rows of a pull.")

_SERVICE = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]
_MODEL = ModelSignature(
    seed=0,
    optimizers=(OptimizerSpec("sgd", 0.1),),
    tables=(TableSpec("rows", 16),),
)
_KINDS = ("unix", "tcp")


@contextmanager
def _echo(kind: str) -> Iterator[Callable[[], None]]:
    """Gives a byte there and back over a bare socket."""
    if kind == "unix":
        near, far = socket.socketpair()
    else:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_answer, args=(far,), daemon=True)
    process.start()
    far.close()

    def call() -> None:
        near.send(b"x")
        near.recv(1)

    with near:
        yield call
    process.join()


def _answer(end: socket.socket) -> None:
    while byte := end.recv(1):
        end.send(byte)


def _small(shard: Shard) -> Callable[[], object]:
    client = rpc.Client(shard.address, _SERVICE, token=shard.token)
    request = ps_pb2.ProgressRequest(epoch=0, task=0)
    return lambda: client.call("GetProgress", request)


def _pull(shard: Shard) -> Callable[[], object]:
    client = PsClient(
        [shard.address],
        _MODEL,
        job_id=shard.job_id,
        wire=WireOptions(),
        token=shard.token,
    )
    client.join()
    client.init_dense(np.empty(0, np.float32), np.empty(0, np.float32))
    grouped, _ = group(np.arange(_FLAGS.rows, dtype=np.int64), 1)
    return lambda: client.pull([grouped])


def _seconds(call: Callable[[], object], times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def _compare(calls: dict[str, Callable[[], object]], times: int) -> dict:
    """Times both kinds in turns: milliseconds a call, and their ratio."""
    found: dict[str, list[float]] = {kind: [] for kind in calls}
    for call in calls.values():
        _seconds(call, max(1, times // 10))
    for _ in range(_FLAGS.rounds):
        for kind, call in calls.items():
            found[kind].append(1e3 * _seconds(call, times))
    ms = {kind: statistics.median(times) for kind, times in found.items()}
    return {"ms": ms, "ratio": ms["unix"] / ms["tcp"]}


def _main(argv: list[str]) -> None:
    options = StalenessOptions()
    with ExitStack() as stack:
        echoes = {kind: stack.enter_context(_echo(kind)) for kind in _KINDS}
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="ek-bench-")
        )
        shards = {}
        for kind in _KINDS:
            place = pathlib.Path(folder, kind)
            place.mkdir()
            shards[kind] = stack.enter_context(Shard(str(place), options, kind))
        small = {kind: _small(shard) for kind, shard in shards.items()}
        pulls = {kind: _pull(shard) for kind, shard in shards.items()}
        figures = {
            "bare sockets": _compare(echoes, 10 * _FLAGS.calls),
            "small call": _compare(small, _FLAGS.calls),
            f"pull of {_FLAGS.rows:,} rows": _compare(pulls, _FLAGS.pulls),
        }
    for name, entry in figures.items():
        print(
            f"{name}: {entry['ms']['unix']:.3f} ms on one host, "
            f"{entry['ms']['tcp']:.3f} ms over TCP, "
            f"ratio {entry['ratio']:.2f}"
        )
    print(json.dumps(figures))


if __name__ == "__main__":
    app.run(_main)
