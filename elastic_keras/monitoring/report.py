"""The lines that open and close a job on the terminal."""

import pathlib
import shlex
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from elastic_keras.config import DataOptions


def opening_lines(options: DataOptions) -> list[str]:
    """Returns what is said before a training begins.

    Args:
        options: Its data.

    Returns:
        Lines for the terminal.
    """
    if options.validation_data:
        return []
    return [
        "Nothing will be evaluated: --validation_data names records to "
        "evaluate on."
    ]


def closing_lines(result: Mapping[str, Any], job_dir: str) -> list[str]:
    """Returns the summary of a job that has ended.

    Args:
        result: What result.json holds; any key may be missing.
        job_dir: The job directory.

    Returns:
        Lines for the terminal.
    """
    folder = pathlib.Path(job_dir)
    lines = [_status_line(result)]
    if "records_trained" in result:
        lines.append(_records_line(result))
    lines += _examples_lines(result)
    evaluation = result.get("evaluation") or {}
    if evaluation:
        lines.append(_evaluation_line(evaluation))
    staleness = result.get("staleness") or {}
    if staleness.get("max"):
        lines.append(
            f"staleness: {staleness['mean']:.2f} versions on average, "
            f"{staleness['max']} at most"
        )
    restarts = {k: n for k, n in (result.get("restarts") or {}).items() if n}
    if restarts:
        counts = (f"{role} {count}" for role, count in restarts.items())
        lines.append(f"restarts: {', '.join(counts)}")
    lines.append(f"result: {folder / 'result.json'}")
    lines.append(tensorboard_line(job_dir))
    return lines


def reading_lines(
    result: Mapping[str, Any], job_dir: str, output: str = ""
) -> list[str]:
    """Returns the summary of a job that trained nothing.

    Args:
        result: What result.json holds; any key may be missing.
        job_dir: The job directory.
        output: Where the predictions are, if they are anywhere.

    Returns:
        Lines for the terminal.
    """
    line = _status_line(result).removesuffix(" while training")
    read, expected = result.get("records_read"), result.get("records_expected")
    if read is not None:
        of_all = (
            f"{read:,}" if read == expected else f"{read:,} of {expected:,}"
        )
        line += f"; {of_all} records"
    lines = [line]
    evaluation = result.get("evaluation") or {}
    if evaluation:
        lines.append(_evaluation_line(evaluation))
    if output and result.get("status") == "succeeded":
        lines.append(
            f"predictions: {output} ({result.get('examples', 0):,} examples)"
        )
    lines.append(f"result: {pathlib.Path(job_dir) / 'result.json'}")
    return lines


def _evaluation_line(evaluation: Mapping[str, float | None]) -> str:
    values = (f"{name} {_number(v)}" for name, v in evaluation.items())
    return f"evaluation: {', '.join(values)}"


def tensorboard_line(job_dir: str) -> str:
    """Returns the line that says how to look at a job in TensorBoard.

    Args:
        job_dir: The job directory.
    """
    summaries = str(pathlib.Path(job_dir) / "summaries")
    command = [*_tensorboard(), "--logdir", summaries]
    return f"TensorBoard: {shlex.join(command)}"


def _tensorboard() -> list[str]:
    """Returns a command that works in the shell this was started from."""
    if shutil.which("tensorboard"):
        return ["tensorboard"]
    # A virtual environment that is not activated.
    beside = pathlib.Path(sys.executable).parent / "tensorboard"
    if beside.exists():
        return [str(beside)]
    return [sys.executable, "-m", "tensorboard.main"]


def _number(value: float | None) -> str:
    """Returns a value's digits; result.json has null for NaN and Inf."""
    return "not finite" if value is None else f"{value:.6g}"


def _status_line(result: Mapping[str, Any]) -> str:
    line = f"job {result.get('status', 'ended')}"
    if "steps" in result:
        line += f": {_steps(result)}"
    if "seconds" in result:
        line += f" in {result['seconds']:.1f} s, start included"
    speed = result.get("examples_per_second")
    if speed:
        line += f"; {speed:,.0f} examples/s while training"
    return line


def _steps(result: Mapping[str, Any]) -> str:
    steps = result["steps"]
    updates = max(
        (shard.get("iterations", 0) for shard in result.get("shards") or ()),
        default=0,
    )
    if 0 < updates < steps:
        # By --grads_to_wait: the step of an evaluation counts updates.
        return f"{steps:,} batches pushed, {updates:,} updates"
    return f"{steps:,} steps"


def _examples_lines(result: Mapping[str, Any]) -> list[str]:
    """Says so where records and examples are not the same number."""
    examples = result.get("examples_trained")
    records = result.get("records_trained")
    if examples is None or examples == records:
        return []
    line = f"examples trained: {examples:,} that dataset_fn made of them"
    if examples < (records or 0):
        line += (
            "; filter(), and batch(drop_remainder=True) at the end of each "
            "task, leave some out"
        )
    return [line]


def _records_line(result: Mapping[str, Any]) -> str:
    trained = result["records_trained"]
    expected = result.get("records_expected")
    line = f"records trained: {trained:,}"
    if not expected:
        # Nothing was counted: the job failed before.
        return line
    formula = "records x epochs"
    bad = result.get("bad_records", 0)
    if bad:
        # By --bad_records=skip; they count once an epoch.
        formula += f", without {bad:,} bad ones that were skipped"
    if trained == expected:
        return f"{line} = {formula}"
    return f"{line} of {expected:,} ({formula})"
