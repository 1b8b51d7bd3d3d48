"""Measures what the journal costs, and how long a cut makes others wait.

    python scripts/benchmark_journal.py [--batch_sizes=1024,4096] [--gb=2]

The first part trains DeepFM as `benchmark_step.py` does, with one worker and
one shard, in turns with the journal and without it; the ratio is the
throughput with it through that without it. The second part fills a table of
so many GB, then pulls and pushes without a pause from two threads and looks
at the longest call, in turns with nothing else and while the shard is cut
and the cut is written. --gb=0 leaves it out.
"""

import json
import os
import pathlib
import statistics
import tempfile
import threading
import time
from collections.abc import Callable

from absl import app, flags

from elastic_keras.config import StalenessOptions

_FLAGS = flags.FLAGS
flags.DEFINE_list("batch_sizes", ["1024"], "Examples in a batch.")
flags.DEFINE_integer("rounds", 6, "Turns of each side.")
flags.DEFINE_float("seconds", 4.0, "Time of a turn, about.")
flags.DEFINE_float("gb", 2.0, "Size of the table that is cut.")
flags.DEFINE_integer("vocabulary", 1_000_000, "Ids of all features together.")

# Adagrad, width 17: weights, one slot, the id, and the index.
_ROW_BYTES = 2 * 17 * 4 + 8 + 7
_OPTIONS = StalenessOptions(max_staleness=4)
_CALL_ROWS = 1000


def _ratio(batch_size: int, folder: pathlib.Path) -> dict:
    from bench_shard import Shard
    from step_bench import Batches, Bench

    batches = Batches(batch_size, _FLAGS.vocabulary, 1.05, False)
    places = {True: folder / "on", False: folder / "off"}
    for place in places.values():
        place.mkdir()
    with (
        Shard(str(places[True]), _OPTIONS, journal=True) as on,
        Shard(str(places[False]), _OPTIONS) as off,
    ):
        benches = {True: Bench(on, batches), False: Bench(off, batches)}
        times: dict[bool, list[float]] = {True: [], False: []}
        steps = 30
        for bench in benches.values():
            steps = max(30, int(_FLAGS.seconds / bench.with_shard(steps)))
        for number in range(_FLAGS.rounds):
            # Who comes first has no advantage.
            for journal in (number % 2 == 0, number % 2 == 1):
                times[journal].append(benches[journal].with_shard(steps))
        size = benches[True].status().journal_bytes
        pushes = benches[True].status().version
    return {
        "batch_size": batch_size,
        "with_ms": [round(1e3 * s, 2) for s in times[True]],
        "without_ms": [round(1e3 * s, 2) for s in times[False]],
        "ratio": round(
            statistics.median(times[False]) / statistics.median(times[True]), 3
        ),
        "journal_bytes_per_push": size // pushes,
    }


class _Calls:
    """Calls without a pause in a thread; knows how long they took."""

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._over = threading.Event()
        self.times: list[float] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            start = time.perf_counter()
            self._call()
            self.times.append(time.perf_counter() - start)

    def end(self) -> dict[str, float]:
        """Ends it; returns milliseconds of the calls."""
        self._over.set()
        self._thread.join()
        times = sorted(self.times)
        return {
            "calls": len(times),
            "median_ms": round(1e3 * statistics.median(times), 2),
            "longest_ms": round(1e3 * times[-1], 2),
        }


def _pauses(folder: pathlib.Path) -> dict:
    import numpy as np
    from bench_shard import Shard
    from step_bench import Batches, Bench

    from elastic_keras.snapshots.folder import SnapshotFolder
    from elastic_keras.wire import rpc
    from elastic_keras.wire.proto import ps_pb2
    from elastic_keras.worker.grouping import GroupedIds

    rows = int(_FLAGS.gb * 1e9 / _ROW_BYTES)
    with Shard(str(folder), _OPTIONS, journal=True) as shard:
        bench = Bench(shard, Batches(1024, _FLAGS.vocabulary, 1.05, False))
        bench.fill(rows)
        random = np.random.default_rng(0)
        service = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]
        master = rpc.Client(shard.address, service, token=shard.token)

        def some() -> np.ndarray:
            ids = random.integers(0, rows, _CALL_ROWS, dtype=np.int64)
            return np.unique(ids)

        def pull() -> None:
            ids = some()
            bench.client.pull([GroupedIds(ids, (0, len(ids)))])

        found: dict[str, list] = {"quiet": [], "cut": []}
        snapshots = SnapshotFolder(folder)
        for _ in range(3):
            calls = _Calls(pull), _Calls(lambda: bench.push(some()))
            time.sleep(_FLAGS.seconds)
            found["quiet"].append([each.end() for each in calls])
            place = snapshots.begin(0)
            calls = _Calls(pull), _Calls(lambda: bench.push(some()))
            time.sleep(0.5)
            request = ps_pb2.CutRequest(folder=place.name)
            cut = master.call("Cut", request)
            start = time.perf_counter()
            master.call(
                "AwaitSnapshot",
                ps_pb2.AwaitSnapshotRequest(folder=place.name),
                timeout=600,
            )
            written = time.perf_counter() - start
            pulls, pushes = [each.end() for each in calls]
            found["cut"].append(
                {
                    "pause_ms": round(1e3 * cut.pause_seconds, 2),
                    "written_seconds": round(written, 1),
                    "pulls": pulls,
                    "pushes": pushes,
                }
            )
            master.call(
                "CommitSnapshot",
                ps_pb2.CommitSnapshotRequest(segment=cut.segment),
            )
        return {
            "bytes": bench.status().bytes,
            "resident_bytes": shard.resident_bytes(),
            **found,
        }


def _main(argv: list[str]) -> None:
    from bench_shard import run_as_launched

    run_as_launched()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    figures: dict = {"ratio": []}
    with tempfile.TemporaryDirectory(prefix="ek-bench-") as folder:
        for size in _FLAGS.batch_sizes:
            place = pathlib.Path(folder) / f"batch-{size}"
            place.mkdir()
            figures["ratio"].append(_ratio(int(size), place))
        if _FLAGS.gb:
            place = pathlib.Path(folder) / "cut"
            place.mkdir()
            figures["cut"] = _pauses(place)
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    app.run(_main)
