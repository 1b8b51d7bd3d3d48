"""`elastic_keras inspect`: a look into a snapshot's files."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console

from elastic_keras.cluster import exits
from elastic_keras.config import ConfigError, option
from elastic_keras.help_text import option_help
from elastic_keras.inspecting import report
from elastic_keras.inspecting.dense import survey_dense
from elastic_keras.inspecting.row import find, neighbours
from elastic_keras.inspecting.survey import survey
from elastic_keras.monitoring import strict_json
from elastic_keras.snapshots.folder import open_snapshot
from elastic_keras.snapshots.snapshot import Snapshot

# Reads flags: see `cli._parse`.
Parse = Callable[..., dict[str, Any] | None]
_LARGEST = (1 << 63) - 1


@dataclasses.dataclass(frozen=True)
class _Options:
    path: str = option(
        "", "A job directory, whose newest snapshot is read, or a snapshot."
    )
    table: str = option("", "This table alone.", unit="name")
    id: str = option("", "This id alone: its row and slots.", unit="id")
    neighbours: int = option(
        0, "With --id: that many ids that are nearest by cosine."
    )
    json: bool = option(False, "Print one JSON object.")


def run(given: Sequence[str], parse: Parse) -> int:
    """Runs `inspect`.

    Args:
        given: The arguments after it.
        parse: Reads a command's flags.

    Returns:
        The exit code.

    Raises:
        ConfigError: Wrong use, or no snapshot.
    """
    values = parse("inspect", given, dataclasses.fields(_Options), "path")
    if values is None:
        print(_help())
        return exits.DONE
    options = _Options(**values)
    _check(options)
    row_id = _row_id(options.id)
    snapshot = open_snapshot(options.path)
    if row_id is not None:
        _show_id(snapshot, options, row_id)
    else:
        _show_tables(snapshot, options)
    return exits.DONE


def _check(options: _Options) -> None:
    if not options.path:
        raise ConfigError(
            "Name a job directory or a snapshot, e.g. elastic_keras inspect "
            f"runs/deepfm. Received: path={options.path!r}"
        )
    if options.neighbours and not options.id:
        raise ConfigError(
            "Name the id whose neighbours are wanted with --id. "
            f"Received: neighbours={options.neighbours}"
        )
    if options.neighbours < 0:
        raise ConfigError(
            "--neighbours takes a value of at least 0. "
            f"Received: neighbours={options.neighbours}"
        )


def _row_id(text: str) -> int | None:
    if not text:
        return None
    try:
        row_id = int(text)
    except ValueError:
        row_id = _LARGEST + 1
    if not -_LARGEST - 1 <= row_id <= _LARGEST:
        raise ConfigError(
            f"--id takes a whole number of 64 bits. Received: id={text!r}"
        )
    return row_id


def _show_tables(snapshot: Snapshot, options: _Options) -> None:
    names = [spec.name for spec in snapshot.signature.tables]
    wanted = (
        [_position(names, options.table)]
        if options.table
        else range(len(names))
    )
    surveys = [survey(snapshot, table) for table in wanted]
    dense = [] if options.table else survey_dense(snapshot)
    if options.json:
        _print_json(
            snapshot,
            tables=[dataclasses.asdict(each) for each in surveys],
            dense=[dataclasses.asdict(each) for each in dense],
        )
        return
    console = Console()
    console.print(report.heading(snapshot), soft_wrap=True)
    for each in surveys:
        console.print(report.table_text(each))
    if dense:
        console.print(report.dense_text(dense))


def _show_id(snapshot: Snapshot, options: _Options, row_id: int) -> None:
    names = [spec.name for spec in snapshot.signature.tables]
    table = _position(names, options.table)
    row = find(snapshot, table, row_id)
    nearest = neighbours(snapshot, table, row, options.neighbours)
    if options.json:
        _print_json(
            snapshot,
            **dataclasses.asdict(row),
            neighbours=[dataclasses.asdict(each) for each in nearest],
        )
        return
    console = Console()
    console.print(report.heading(snapshot), soft_wrap=True)
    asked = nearest if options.neighbours else None
    console.print(report.row_text(row, asked))


def _position(names: list[str], name: str) -> int:
    if not name and len(names) == 1:
        return 0
    if name not in names:
        listed = ", ".join(names)
        raise ConfigError(
            (
                f"Name one of the tables {listed} with --table. "
                if names
                else "The model has no tables. "
            )
            + f"Received: table={name!r}"
        )
    return names.index(name)


def _print_json(snapshot: Snapshot, **what: Any) -> None:
    manifest = snapshot.manifest
    print(
        strict_json.dumps(
            {
                "snapshot": str(snapshot.path),
                "step": manifest.step,
                "epoch": manifest.epoch,
                "num_shards": snapshot.num_shards,
                "bytes": snapshot.nbytes,
                **what,
            }
        )
    )


def _help() -> str:
    return "\n".join(
        [
            "elastic_keras inspect JOB_DIR|SNAPSHOT [--flag=value ...]",
            "",
            "  elastic_keras inspect runs/deepfm",
            "  elastic_keras inspect runs/deepfm --table=movies --id=17 "
            "--neighbours=5",
            "",
            "Reads a snapshot's files and starts nothing.",
            "",
            *option_help(dataclasses.fields(_Options)),
            "",
            "Exit codes: 0 success, 2 wrong use, or no snapshot.",
        ]
    )
