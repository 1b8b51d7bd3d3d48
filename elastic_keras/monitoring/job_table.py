"""A job's state on a terminal."""

from collections.abc import Mapping

from rich import box, filesize
from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from elastic_keras.monitoring.job_view import JobView, ShardView, WorkerView
from elastic_keras.monitoring.progress import duration

_BAR_WIDTH = 40
_COLOURS = {"succeeded": "green", "failed": "red", "stopped": "yellow"}


def render(view: JobView) -> RenderableType:
    """Returns what to print of a job.

    Args:
        view: The job's state.
    """
    parts: list[RenderableType] = [_headline(view)]
    parts.append(_facts(view))
    if view.workers:
        parts.append(_workers(view))
    if view.shards:
        parts.append(_shards(view))
    for text in (view.message, view.error):
        if text:
            parts.append(Text(text))
    return Group(*parts)


def _headline(view: JobView) -> Text:
    text = Text(view.job_dir, style="bold")
    text.append("  ")
    colour = _COLOURS.get(view.phase, "cyan")
    text.append(view.phase, style=f"bold {colour}")
    if view.running and view.seconds_left is not None:
        text.append(f"  {duration(view.seconds_left)} left", style="default")
    elif not view.running:
        text.append("  not running", style="default")
    return text


def _facts(view: JobView) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    if view.records_expected:
        table.add_row(
            "",
            ProgressBar(
                total=view.records_expected,
                completed=view.records_done,
                width=_BAR_WIDTH,
            ),
        )
    for name, value in (
        ("progress", _progress(view)),
        ("speed", _speed(view)),
        ("training", _values({"loss": view.loss, **view.metrics})),
        ("evaluation", _values(view.evaluation)),
        ("staleness", _staleness(view)),
        ("tasks", _tasks(view)),
        ("restarts", _restarts(view)),
    ):
        if value:
            table.add_row(name, value)
    return table


def _progress(view: JobView) -> str:
    parts = []
    if view.num_epochs:
        parts.append(f"epoch {view.epoch}/{view.num_epochs}")
    if view.records_expected:
        parts.append(f"{view.records_done:,}/{view.records_expected:,} records")
    if view.steps:
        parts.append(f"{view.steps:,} steps")
    parts.append(f"{duration(view.seconds)} since the start")
    return ", ".join(parts)


def _speed(view: JobView) -> str:
    speed = view.examples_per_second
    return f"{speed:,.0f} examples/s" if speed else ""


def _staleness(view: JobView) -> str:
    if not view.staleness_max:
        return ""
    return (
        f"{view.staleness_mean:.1f} versions on average, "
        f"{view.staleness_max} at most"
    )


def _tasks(view: JobView) -> str:
    if not view.running:
        return ""
    return f"{view.tasks_running} running, {view.tasks_waiting} waiting"


def _restarts(view: JobView) -> str:
    counts = (f"{role} {n}" for role, n in view.restarts.items() if n)
    return ", ".join(counts)


def _values(values: Mapping[str, float | None]) -> str:
    return ", ".join(
        f"{name} {value:.4g}"
        for name, value in values.items()
        if value is not None
    )


def _table(*headings: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(headings):
        # The first one is a name, and so is the last: what stands out.
        is_text = number in (0, len(headings) - 1)
        table.add_column(heading, justify="left" if is_text else "right")
    return table


def _workers(view: JobView) -> Table:
    table = _table(
        "worker", "steps", "examples/s", "step ms", "pull ms", "push ms", ""
    )
    for worker in view.workers:
        slowest = worker.index == view.slowest_worker
        table.add_row(
            str(worker.index),
            f"{worker.steps:,}",
            _some(worker.examples_per_second),
            _milliseconds(worker.own_seconds),
            _milliseconds(worker.pull_seconds),
            _milliseconds(worker.push_seconds),
            _state(view, worker, slowest),
        )
    return table


def _state(view: JobView, worker: WorkerView, slowest: bool) -> Text:
    if not worker.alive:
        starting = view.phase == "starting"
        return Text("not there", style="dim" if starting else "red")
    if slowest:
        return Text("slowest", style="yellow")
    idle = view.phase == "training" and not worker.training
    return Text("no training task" if idle else "", style="dim")


def _shards(view: JobView) -> Table:
    table = _table(
        "shard", "rows", "memory", "version", "pulled", "pushed", "waiting", ""
    )
    for shard in view.shards:
        hottest = shard.index == view.hottest_shard
        table.add_row(
            str(shard.index),
            f"{shard.rows:,}",
            filesize.decimal(shard.bytes),
            f"{shard.version:,}",
            *_load(view, shard),
            f"{shard.waiting_pulls:,}",
            Text("hottest" if hottest else "", style="yellow"),
        )
    return table


def _load(view: JobView, shard: ShardView) -> tuple[str, str]:
    if not view.running:
        return (
            filesize.decimal(shard.pulled_bytes),
            filesize.decimal(shard.pushed_bytes),
        )
    return (
        f"{filesize.decimal(int(shard.pulled_bytes_per_second))}/s",
        f"{filesize.decimal(int(shard.pushed_bytes_per_second))}/s",
    )


def _some(value: float) -> str:
    return f"{value:,.0f}" if value else "-"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f}" if seconds else "-"
