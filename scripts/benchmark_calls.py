"""Measures what a call costs over a Unix socket and over TCP.

    python scripts/benchmark_calls.py [--rounds=5] [--calls=2000]

Two shards, each a process of its own, are asked small questions, in turns;
printed is the time of a call, the median of the rounds.
"""

import json
import pathlib
import statistics
import tempfile
import time

from absl import app, flags
from bench_shard import Shard

from elastic_keras.config import StalenessOptions
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import ps_pb2

_FLAGS = flags.FLAGS
flags.DEFINE_integer("rounds", 5, "Turns of each side.")
flags.DEFINE_integer("calls", 2000, "Calls of a turn.")

_SERVICE = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]


def _client(shard: Shard) -> rpc.Client:
    return rpc.Client(shard.address, _SERVICE, token=shard.token)


def _time_of_a_call(client: rpc.Client, calls: int) -> float:
    request = ps_pb2.ProgressRequest(epoch=0, task=0)
    start = time.perf_counter()
    for _ in range(calls):
        client.call("GetProgress", request)
    return (time.perf_counter() - start) / calls


def _main(argv: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="ek-bench-") as folder:
        places = {kind: f"{folder}/{kind}" for kind in ("unix", "tcp")}
        for place in places.values():
            pathlib.Path(place).mkdir()
        options = StalenessOptions()
        with (
            Shard(places["unix"], options) as unix,
            Shard(places["tcp"], options, "tcp") as tcp,
        ):
            clients = {"unix": _client(unix), "tcp": _client(tcp)}
            found: dict[str, list[float]] = {kind: [] for kind in clients}
            for client in clients.values():
                _time_of_a_call(client, 200)
            for _ in range(_FLAGS.rounds):
                for kind, client in clients.items():
                    found[kind].append(_time_of_a_call(client, _FLAGS.calls))
            for client in clients.values():
                client.close()
    medians = {
        kind: 1e3 * statistics.median(times) for kind, times in found.items()
    }
    ratio = medians["unix"] / medians["tcp"]
    print(
        f"a call: {medians['unix']:.3f} ms over a Unix socket, "
        f"{medians['tcp']:.3f} ms over TCP, ratio {ratio:.2f}"
    )
    print(json.dumps({"ms": medians, "ratio": ratio}))


if __name__ == "__main__":
    app.run(_main)
