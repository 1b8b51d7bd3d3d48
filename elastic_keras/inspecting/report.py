"""A snapshot, and an id of it, on a terminal."""

from collections.abc import Iterable, Sequence

from rich import box, filesize
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from elastic_keras.inspecting.dense import DenseReport
from elastic_keras.inspecting.row import Neighbour, RowReport
from elastic_keras.inspecting.survey import FAR, Survey
from elastic_keras.snapshots.snapshot import Snapshot

# Of the optimizers of tables, those whose rows count their updates.
_COUNTING = "adam, adamw, adamax, nadam and use_ema do"


def heading(snapshot: Snapshot) -> RenderableType:
    """Returns what a snapshot is."""
    manifest = snapshot.manifest
    return Group(
        Text(str(snapshot.path), style="bold"),
        Text(
            f"step {manifest.step:,}, epoch {manifest.epoch}, "
            f"shards {snapshot.num_shards}, "
            f"{filesize.decimal(snapshot.nbytes)}"
        ),
    )


def table_text(survey: Survey) -> RenderableType:
    """Returns what there is to say of a table.

    Args:
        survey: The table.
    """
    title = (
        f"table {survey.name}: {survey.rows:,} rows of {survey.dim}, "
        f"{filesize.decimal(survey.bytes)}, {survey.optimizer}"
    )
    if survey.slots:
        title += f" with {', '.join(survey.slots)}"
    return _section(
        title,
        [
            ("rows by shard", _joined(f"{n:,}" for n in survey.rows_by_shard)),
            ("norms", _norms(survey)),
            ("most updated ids", _updates(survey)),
            ("outliers", _outliers(survey)),
            ("NaN or Inf", _nonfinite(survey)),
        ],
    )


def dense_text(reports: Sequence[DenseReport]) -> RenderableType:
    """Returns what there is to say of the dense parameters.

    Args:
        reports: One for each.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("dense parameter", overflow="fold")
    for name in ("shape", "norm", "min", "max", "NaN or Inf"):
        table.add_column(name, justify="right")
    for report in reports:
        table.add_row(
            report.name,
            "x".join(map(str, report.shape)),
            *(f"{v:.4g}" for v in (report.norm, report.min, report.max)),
            _warning(f"{report.nonfinite:,}") if report.nonfinite else "none",
        )
    return table


def row_text(
    report: RowReport, nearest: Sequence[Neighbour] | None
) -> RenderableType:
    """Returns what there is to say of an id.

    Args:
        report: The id.
        nearest: Its neighbours; `None` if nobody asked.
    """
    lines: list[tuple[str, str | Text]] = []
    if not report.exists:
        lines.append(("row", "none: no gradient for this id was applied"))
    name = "row" if report.exists else "initial value"
    lines.append((name, _vector(report.row)))
    lines.append(("norm", f"{report.norm:.6g}"))
    for slot, value in report.slots.items():
        is_vector = isinstance(value, list)
        lines.append((slot, _vector(value) if is_vector else f"{value:g}"))
    if nearest is not None:
        lines.append(("neighbours", _neighbours(report, nearest)))
    return _section(
        f"id {report.id} of table {report.table}, shard {report.shard}", lines
    )


def _section(
    title: str, lines: Iterable[tuple[str, str | Text]]
) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, value in lines:
        table.add_row(name, value)
    body = Padding(table, (0, 0, 0, 2))
    return Group(Text(), Text(title, style="bold"), body)


def _norms(survey: Survey) -> str:
    text = (
        f"mean {survey.norm_mean:.4g}, median {survey.norm_median:.3g}, "
        f"from {survey.norm_min:.4g} to {survey.norm_max:.4g}"
    )
    if survey.zero_rows:
        text += f"; {_rows(survey.zero_rows)} of zeros"
    return text


def _updates(survey: Survey) -> str:
    if survey.most_updated is None:
        if not survey.rows:
            return "none"
        return (
            f"not known: {survey.optimizer} keeps no count of a row's "
            f"updates ({_COUNTING})"
        )
    return _joined(
        f"{each.id} ({_times(each.updates)})" for each in survey.most_updated
    )


def _outliers(survey: Survey) -> str:
    if not survey.outlier_rows:
        return f"none: no norm is above {FAR:g} times the median"
    return (
        f"{_rows(survey.outlier_rows)} with a norm above "
        f"{survey.outlier_norm:.4g}, {FAR:g} times the median: "
        + _joined(f"{each.id} ({each.norm:.4g})" for each in survey.outliers)
    )


def _nonfinite(survey: Survey) -> str | Text:
    parts = []
    if survey.nonfinite_rows:
        ids = _joined(map(str, survey.nonfinite_ids))
        parts.append(f"{_rows(survey.nonfinite_rows)}, e.g. of {ids}")
    parts += [
        f"{_rows(rows)} in slot {name}"
        for name, rows in survey.nonfinite_slots.items()
    ]
    return _warning("; ".join(parts)) if parts else "none"


def _neighbours(report: RowReport, nearest: Sequence[Neighbour]) -> str:
    if not report.exists:
        return "none: an initial value points anywhere"
    if not nearest:
        return "none: the row, or every other one, has no direction"
    return _joined(f"{each.id} ({each.cosine:.3f})" for each in nearest)


def _vector(values: list[float] | float) -> str:
    assert isinstance(values, list)
    return " ".join(f"{value:.6g}" for value in values)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _warning(text: str) -> Text:
    return Text(text, style="red")
