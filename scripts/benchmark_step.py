"""Measures what the shards cost a worker: examples/s with and without them.

    python scripts/benchmark_step.py [--batch_sizes=1024,4096] [--rows=...]

DeepFM (model_zoo/criteo/deepfm.py): 26 features of width 16 with a linear
weight each, MLP 256-128-64, Adagrad. "With" is the worker's whole pipeline,
one worker and one shard, two processes over a Unix socket: ids found and made
unique in tf.data, pull, step, push. "Without" is the same compiled step alone
on rows that are already in memory. Both are measured in turns. With --rows
it also measures the step, and the memory, with so many rows in the table.
What is measured is set up by `step_bench.py`.
"""

import json
import os
import pathlib
import statistics
import tempfile
import time

from absl import app, flags

from elastic_keras.config import StalenessOptions

_FLAGS = flags.FLAGS
flags.DEFINE_list("batch_sizes", ["1024", "4096"], "Examples in a batch.")
flags.DEFINE_list("rows", [], "Rows of the table, e.g. 100000,1000000.")
flags.DEFINE_integer("rounds", 4, "Turns of each side.")
flags.DEFINE_float("seconds", 4.0, "Time of a turn, about.")
flags.DEFINE_integer("max_staleness", 4, "The bound of the policy wait.")
flags.DEFINE_integer("vocabulary", 1_000_000, "Ids of all features together.")
flags.DEFINE_float("skew", 1.05, "Exponent of the ids' power law; 0 is none.")
flags.DEFINE_integer("threads", 0, "Intra-op threads; 0 as in a job.")
flags.DEFINE_string("output", "", "File for the figures as JSON.")

# Adagrad, width 17: weights, one slot, and the id.
_ROW_BYTES = 2 * 17 * 4 + 8


def _options() -> StalenessOptions:
    return StalenessOptions(max_staleness=_FLAGS.max_staleness)


def _ratio(batch_size: int, folder: str) -> dict:
    from bench_shard import Shard
    from step_bench import Batches, Bench

    batches = Batches(batch_size, _FLAGS.vocabulary, _FLAGS.skew, False)
    with Shard(folder, _options()) as shard:
        bench = Bench(shard, batches)
        bench.without_shard(5)
        steps = max(30, int(_FLAGS.seconds / bench.without_shard(10)))
        bench.with_shard(steps)
        bench.stats.take()
        alone, with_shard = [], []
        cpu = {"alone": 0.0, "worker": 0.0, "shard": 0.0}
        for _ in range(_FLAGS.rounds):
            start = time.process_time()
            alone.append(bench.without_shard(steps))
            middle = time.process_time()
            of_shard = shard.cpu_seconds()
            with_shard.append(bench.with_shard(steps))
            cpu["alone"] += middle - start
            cpu["worker"] += time.process_time() - middle
            cpu["shard"] += shard.cpu_seconds() - of_shard
        taken = bench.stats.take()
    best = statistics.median(alone)
    ours = statistics.median(with_shard)
    return {
        "batch_size": batch_size,
        "unique_ids": bench.unique,
        "steps_per_turn": steps,
        "alone_ms": [round(1e3 * s, 2) for s in alone],
        "with_shard_ms": [round(1e3 * s, 2) for s in with_shard],
        "alone_examples_per_second": round(batch_size / best),
        "examples_per_second": round(batch_size / ours),
        "ratio": round(best / ours, 3),
        "cpu_ms": {
            name: round(1e3 * seconds / steps / _FLAGS.rounds, 2)
            for name, seconds in cpu.items()
        },
        "pull_ms": round(1e3 * taken.pull.seconds / taken.pull.count, 2),
        "push_ms": round(1e3 * taken.push.seconds / taken.push.count, 2),
        "pull_bytes": taken.pull.bytes // taken.pull.count,
        "push_bytes": taken.push.bytes // taken.push.count,
    }


def _rows(sizes: list[int], folder: pathlib.Path) -> list[dict]:
    """Measures steps on tables of several sizes, in turns."""
    from bench_shard import Shard
    from step_bench import Batches, Bench

    found: dict[int, list[float]] = {size: [] for size in sizes}
    memory = {}
    shards, benches = [], {}
    try:
        for size in sizes:
            place = folder / f"rows-{size}"
            place.mkdir()
            shard = Shard(str(place), _options())
            shards.append(shard.__enter__())
            bench = Bench(shard, Batches(1024, size, 0.0, True))
            before = shard.resident_bytes()
            bench.fill(size)
            bench.with_shard(30)
            status = bench.status()
            memory[size] = {
                "bytes_per_row": status.tables[0].bytes / status.rows,
                "resident_bytes_per_row": (shard.resident_bytes() - before)
                / status.rows,
            }
            benches[size] = bench
        for _ in range(_FLAGS.rounds):
            for size, bench in benches.items():
                found[size].append(bench.with_shard(100))
    finally:
        for shard in shards:
            shard.__exit__()
    return [
        {
            "rows": size,
            "step_ms": [round(1e3 * s, 2) for s in times],
            "median_ms": round(1e3 * statistics.median(times), 2),
            **memory[size],
        }
        for size, times in found.items()
    ]


def _print_table(figures: dict) -> None:
    for entry in figures["ratio"]:
        print(
            f"batch {entry['batch_size']:>5}: "
            f"{entry['examples_per_second']:>8,} examples/s with the shard, "
            f"{entry['alone_examples_per_second']:>8,} alone, "
            f"ratio {entry['ratio']:.2f} "
            f"(pull {entry['pull_ms']} ms, push {entry['push_ms']} ms, "
            f"{entry['unique_ids']:,} unique ids; processor ms a step: "
            f"{entry['cpu_ms']})"
        )
    for entry in figures["rows"]:
        print(
            f"{entry['rows']:>12,} rows: {entry['median_ms']:.2f} ms a step, "
            f"{entry['bytes_per_row']:.0f} bytes a row with the index "
            f"(resident {entry['resident_bytes_per_row']:.0f}), of which "
            f"weights, slot and id are {_ROW_BYTES}"
        )


def _main(argv: list[str]) -> None:
    from bench_shard import run_as_launched

    run_as_launched()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf

    if _FLAGS.threads:
        tf.config.threading.set_intra_op_parallelism_threads(_FLAGS.threads)
    figures: dict = {"ratio": [], "rows": []}
    with tempfile.TemporaryDirectory(prefix="ek-bench-") as folder:
        for size in _FLAGS.batch_sizes:
            place = pathlib.Path(folder) / f"batch-{size}"
            place.mkdir()
            figures["ratio"].append(_ratio(int(size), str(place)))
        if _FLAGS.rows:
            figures["rows"] = _rows(
                [int(size) for size in _FLAGS.rows], pathlib.Path(folder)
            )
    _print_table(figures)
    print(json.dumps(figures))
    if _FLAGS.output:
        pathlib.Path(_FLAGS.output).write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    app.run(_main)
