"""JOB_DIR/result.json: what a job leaves for people and programs."""

import json
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from elastic_keras.monitoring import strict_json
from elastic_keras.wire.proto import ps_pb2


def shard_results(
    statuses: Sequence[ps_pb2.ShardStatus],
) -> list[dict[str, Any]]:
    """Returns what the result says of each shard.

    Args:
        statuses: The status of each shard.
    """
    return [
        {
            "rows": status.rows,
            "bytes": status.bytes,
            "version": status.version,
            "iterations": status.iterations,
            "tables": {
                table.name: {"rows": table.rows, "bytes": table.bytes}
                for table in status.tables
            },
            "refused_pushes": status.refused_pushes,
            "duplicate_pushes": status.duplicate_pushes,
            "nonfinite_pushes": status.nonfinite_pushes,
            "pulled_bytes": status.pulled_bytes,
            "pushed_bytes": status.pushed_bytes,
        }
        for status in statuses
    ]


def restarts(job_dir: str, workers: int) -> dict[str, int]:
    """Returns restarts by role.

    Args:
        job_dir: Where the launcher leaves restarts.json.
        workers: Restarts of workers that the master has seen.
    """
    counts = {"worker": workers, "ps": 0, "master": 0}
    try:
        text = (pathlib.Path(job_dir) / "restarts.json").read_text()
        raw = json.loads(text)
        for role, count in raw.items():
            counts[role] = max(counts.get(role, 0), int(count))
    except (OSError, ValueError, AttributeError, TypeError):
        # Not there (yet), or being written: what the master saw must do.
        pass
    return counts


def write(job_dir: str, result: dict[str, Any]) -> None:
    """Writes result.json under a temporary name, then renames it.

    Args:
        job_dir: The job directory.
        result: Plain data; values that are not finite become null.

    Raises:
        OSError: The directory cannot be written.
    """
    path = pathlib.Path(job_dir) / "result.json"
    temporary = path.with_name(".result.json.new")
    temporary.write_text(strict_json.dumps(result) + "\n")
    os.replace(temporary, path)
