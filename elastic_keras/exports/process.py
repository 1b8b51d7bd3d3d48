"""Exports in a process of its own: TensorFlow and the module stay there."""

import os
import pathlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import elastic_keras
from elastic_keras.cluster import exits, lifeline, signals
from elastic_keras.cluster.launcher import JobOutcome
from elastic_keras.cluster.process import Process, ending
from elastic_keras.config import JobConfig
from elastic_keras.exports import report
from elastic_keras.exports.destination import temporary

_LOG = "export.log"


def run(config: JobConfig) -> JobOutcome:
    """Exports; returns how that ended.

    Args:
        config: See `trained.export_config`.
    """
    with tempfile.TemporaryDirectory(prefix="ek-") as folder:
        return _run(config, _log(config, pathlib.Path(folder)))


def read_report(output: str) -> dict[str, Any]:
    """Reads the export.json of an export."""
    return report.read(output)


def report_lines(said: Mapping[str, Any], output: str) -> list[str]:
    """Returns what a person is told of an export.

    Args:
        said: Its export.json.
        output: Its folder.
    """
    rows = sum(table["rows"] for table in said["tables"])
    formats = ", ".join(said["formats"]) or "nothing"
    first = (
        f"exported step {said['step']:,} ({formats}; {rows:,} rows) to {output}"
    )
    return [first, *(f"note: {note}" for note in said["notes"])]


def _run(config: JobConfig, log: pathlib.Path) -> JobOutcome:
    output = config.output.output
    process = Process(
        "export",
        0,
        [sys.executable, "-m", "elastic_keras.exports.main", config.to_json()],
        _environment(),
        log,
    )
    received: list[int] = []

    def on_signal(number: int) -> None:
        process.signal(signal.SIGKILL if received else signal.SIGTERM)
        received.append(number)

    with signals.forwarded(on_signal):
        code = process.wait()
        process.close()
    shutil.rmtree(temporary(output, process.pid), ignore_errors=True)
    if code == exits.DONE:
        return JobOutcome(output, "succeeded", code, "")
    if received:
        return JobOutcome(output, "stopped", 128 + received[0], "")
    error = process.last_words()
    if code not in (exits.USER_ERROR, exits.WRONG_USE):
        error = f"The export {ending(code)}. The end of its log:\n{error}"
        code = exits.USER_ERROR
    return JobOutcome(output, "failed", code, error.strip())


def _log(config: JobConfig, otherwise: pathlib.Path) -> pathlib.Path:
    """Returns the log's path: beside the training's logs, if it may be."""
    logs = pathlib.Path(config.cluster.job_dir) / "logs"
    known = bool(config.cluster.job_dir) and os.access(logs, os.W_OK)
    return (logs if known else otherwise) / _LOG


def _environment() -> dict[str, str]:
    package_parent = str(pathlib.Path(elastic_keras.__file__).parents[1])
    paths = [package_parent, os.environ.get("PYTHONPATH", "")]
    return {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **os.environ,
        lifeline.ENABLED: "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
