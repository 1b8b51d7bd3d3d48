"""A job's state in Prometheus's text format, version 0.0.4."""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from elastic_keras.monitoring.job_view import PHASES, JobView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX = "elastic_keras_"


class _Family(NamedTuple):
    """A metric: its name without prefix, its type, its help, its samples."""

    name: str
    kind: str
    text: str
    samples: list[tuple[dict[str, object], float]]


def render(view: JobView) -> str:
    """Returns all metrics of a job; those without a value are left out.

    Args:
        view: The job's state.
    """
    lines: list[str] = []
    for family in (*_job(view), *_workers(view), *_shards(view)):
        if not family.samples:
            continue
        name = _PREFIX + family.name
        lines.append(f"# HELP {name} {_escaped(family.text)}")
        lines.append(f"# TYPE {name} {family.kind}")
        lines += [
            f"{name}{_labels(labels)} {_number(value)}"
            for labels, value in family.samples
        ]
    return "\n".join(lines) + "\n"


def _job(view: JobView) -> Iterator[_Family]:
    gauges: tuple[tuple[str, str, float | None], ...] = (
        ("seconds", "Seconds since the job's start.", view.seconds),
        ("seconds_left", "Seconds that training takes.", view.seconds_left),
        ("epoch", "The epoch, from 1.", view.epoch),
        ("epochs", "Epochs to train.", view.num_epochs),
        ("steps", "Steps trained.", view.steps),
        ("records", "Records trained, or read.", view.records_done),
        (
            "records_expected",
            "Records to train, or to read.",
            view.records_expected,
        ),
        (
            "examples_per_second",
            "Present speed of all workers.",
            view.examples_per_second,
        ),
        ("loss", "Training loss of the last seconds.", view.loss),
        (
            "staleness_mean_versions",
            "Mean staleness of all pushes applied.",
            view.staleness_mean,
        ),
        (
            "staleness_max_versions",
            "Largest staleness of a push applied.",
            view.staleness_max,
        ),
    )
    yield _Family(
        "phase",
        "gauge",
        "1 for the phase that the job is in.",
        [({"phase": p}, float(p == view.phase)) for p in PHASES],
    )
    for name, text, value in gauges:
        yield _Family(
            name, "gauge", text, [] if value is None else [({}, value)]
        )
    yield _values("metric", "A training metric.", view.metrics)
    yield _values("evaluation", "The newest evaluation.", view.evaluation)
    yield _Family(
        "tasks",
        "gauge",
        "Tasks of this epoch that are not done.",
        [
            ({"state": "waiting"}, view.tasks_waiting),
            ({"state": "running"}, view.tasks_running),
        ],
    )
    yield _Family(
        "restarts_total",
        "counter",
        "Processes that were started again.",
        [({"role": role}, n) for role, n in sorted(view.restarts.items())],
    )


def _values(
    name: str, text: str, values: Mapping[str, float | None]
) -> _Family:
    return _Family(
        name,
        "gauge",
        text,
        [({"name": n}, v) for n, v in values.items() if v is not None],
    )


def _workers(view: JobView) -> Iterator[_Family]:
    for name, kind, text, attribute in (
        ("up", "gauge", "Whether the worker is there.", "alive"),
        ("steps_total", "counter", "Steps that it reported.", "steps"),
        ("examples_total", "counter", "Examples in its steps.", "examples"),
        (
            "examples_per_second",
            "gauge",
            "Its present speed.",
            "examples_per_second",
        ),
        (
            "step_seconds",
            "gauge",
            "What a step takes it without waiting for others.",
            "own_seconds",
        ),
        ("pull_seconds", "gauge", "Mean time of a pull.", "pull_seconds"),
        ("push_seconds", "gauge", "Mean time of a push.", "push_seconds"),
    ):
        yield _Family(
            f"worker_{name}",
            kind,
            text,
            [
                ({"worker": each.index}, float(getattr(each, attribute)))
                for each in view.workers
            ],
        )


def _shards(view: JobView) -> Iterator[_Family]:
    for name, kind, text, attribute in (
        ("rows", "gauge", "Rows of all tables.", "rows"),
        ("bytes", "gauge", "Memory of parameters and slots.", "bytes"),
        ("pushes_total", "counter", "Pushes applied.", "version"),
        (
            "pulled_bytes_total",
            "counter",
            "Parameters handed out, as float32.",
            "pulled_bytes",
        ),
        (
            "pushed_bytes_total",
            "counter",
            "Gradients taken, as float32.",
            "pushed_bytes",
        ),
        (
            "waiting_pulls",
            "gauge",
            "Pulls that wait for the bound on staleness.",
            "waiting_pulls",
        ),
        (
            "refused_pushes_total",
            "counter",
            "Pushes refused as too stale.",
            "refused_pushes",
        ),
        (
            "nonfinite_pushes_total",
            "counter",
            "Batches refused for a NaN or Inf.",
            "nonfinite_pushes",
        ),
    ):
        yield _Family(
            f"shard_{name}",
            kind,
            text,
            [
                ({"shard": each.index}, getattr(each, attribute))
                for each in view.shards
            ],
        )
    for position, (name, text) in enumerate(
        (("rows", "Rows of a table."), ("bytes", "Memory of a table."))
    ):
        yield _Family(
            f"table_{name}",
            "gauge",
            text,
            [
                ({"shard": each.index, "table": table}, size[position])
                for each in view.shards
                for table, size in each.tables.items()
            ],
        )


def _labels(labels: Mapping[str, object]) -> str:
    if not labels:
        return ""
    pairs = (
        f'{name}="{_escaped(str(value), quotes=True)}"'
        for name, value in labels.items()
    )
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", r"\\").replace("\n", r"\n")
    return escaped.replace('"', r"\"") if quotes else escaped


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
