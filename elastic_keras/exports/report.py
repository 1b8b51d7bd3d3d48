"""export.json: what an export is, for people and programs."""

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.signature import TableSpec
from elastic_keras.snapshots.snapshot import Snapshot

FILE = "export.json"
# What reading by an export takes from the job that trained it.
_GROUPS = ("model", "data")


def is_export(path: str | os.PathLike[str]) -> bool:
    """Tells whether a folder is an export."""
    return os.path.isfile(os.path.join(path, FILE))


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns what the export.json of an export says.

    Raises:
        ConfigError: It cannot be read.
    """
    said = _read_json(pathlib.Path(path) / FILE)
    if not said:
        raise ConfigError(
            f"No {FILE} that can be read. Received: {os.fspath(path)!r}"
        )
    return said


def config_of(path: str | os.PathLike[str]) -> JobConfig:
    """Returns the module and the format of the data of an export.

    Raises:
        ConfigError: It cannot be read, or was not made for it.
    """
    said = read(path)
    if "saved_model" not in said.get("formats", ()) or "config" not in said:
        raise ConfigError(
            "To read by an export takes one of this version with its "
            "SavedModel: export with --formats=saved_model. "
            f"Received: {os.fspath(path)!r}"
        )
    own = {"job_id": "", "master_address": "", "ps_addresses": []}
    return JobConfig.from_json(json.dumps({**said["config"], **own}))


def make_report(
    snapshot: Snapshot,
    formats: Mapping[str, Any],
    notes: Sequence[str],
    config: JobConfig,
) -> dict[str, Any]:
    """Returns what export.json says.

    Args:
        snapshot: The snapshot that was exported.
        formats: What each format's writer tells, by its name.
        notes: What is missing or needs something, a line each.
        config: Where the module is, and the format of its data.
    """
    manifest = snapshot.manifest
    return {
        "job_id": manifest.job_id,
        "step": manifest.step,
        "evaluation": _evaluation(snapshot),
        "features": json.loads(manifest.signature.features or "null"),
        "tables": [
            {
                "name": table.name,
                "rows": snapshot.rows(number),
                "dim": table.dim,
                "unknown_id": _rule(table, manifest.signature.seed, number),
            }
            for number, table in enumerate(manifest.signature.tables)
        ],
        "formats": dict(formats),
        "notes": list(notes),
        "config": {
            name: dataclasses.asdict(getattr(config, name)) for name in _GROUPS
        },
    }


def _rule(table: TableSpec, seed: int, number: int) -> dict[str, Any]:
    """Says what a row is that was never trained."""
    initializer = table.initializer
    return {
        "distribution": initializer.name,
        "a": initializer.a,
        "b": initializer.b,
        "seed": seed,
        "table_index": number,
    }


def _evaluation(snapshot: Snapshot) -> dict[str, Any] | None:
    """Returns the job's last evaluation, if it was of these parameters."""
    # JOB_DIR/snapshots/step-N
    job_dir = snapshot.path.absolute().parents[1]
    result = _read_json(job_dir / "result.json")
    of_this = result.get("snapshot") == str(
        pathlib.Path(snapshot.path.absolute()).relative_to(job_dir)
    )
    evaluations = result.get("evaluations") or []
    if not of_this or not evaluations:
        return None
    last = evaluations[-1]
    return last if last.get("step") == snapshot.manifest.step else None


def _read_json(path: pathlib.Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}
