"""export.json: what an export is, for people and programs."""

import json
import pathlib
from typing import Any

from elastic_keras.signature import TableSpec
from elastic_keras.snapshots.snapshot import Snapshot

FILE = "export.json"


def make_report(
    snapshot: Snapshot, formats: dict[str, Any], notes: list[str]
) -> dict[str, Any]:
    """Returns what export.json says.

    Args:
        snapshot: The snapshot that was exported.
        formats: What each format's writer tells, by its name.
        notes: What is missing or needs something, a line each.
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
        "formats": formats,
        "notes": notes,
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
