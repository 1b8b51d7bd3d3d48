"""Runs `elastic_keras train` as a user does, on tiny data."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import numpy as np

ZOO = pathlib.Path(__file__).parent / "zoo"
# A job that takes longer hangs: a whole one takes some ten seconds.
_PATIENCE = 300.0


@dataclasses.dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    out: str
    err: str
    job_dir: pathlib.Path

    @property
    def result(self) -> dict[str, Any]:
        """What the job left in result.json."""
        return json.loads((self.job_dir / "result.json").read_text())

    @property
    def logs(self) -> str:
        """The end of every log, to read when a test fails."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text()[-3000:]}"
            for path in sorted((self.job_dir / "logs").glob("*.log"))
        )

    def succeeded(self) -> dict[str, Any]:
        """Asserts that the job succeeded; returns its result."""
        assert self.code == 0, f"{self.err}\n{self.logs}"
        result = self.result
        assert result["status"] == "succeeded"
        assert result["records_trained"] == result["records_expected"]
        return result


def as_a_user() -> dict[str, str]:
    """Returns this process's variables but for what the tests need alone."""
    return {
        name: value
        for name, value in os.environ.items()
        if name != "GRPC_ENABLE_FORK_SUPPORT"
    }


def elastic_keras(
    *arguments: str,
    job_dir: pathlib.Path,
    environment: dict[str, str] | None = None,
    folder: pathlib.Path | None = None,
) -> Finished:
    """Runs the command to its end.

    Args:
        *arguments: What follows `elastic_keras`.
        job_dir: Where the result is looked for.
        environment: Variables on top of this process's.
        folder: Working directory.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "elastic_keras.cli", *arguments],
        env={**as_a_user(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=folder,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        # An orderly stop leaves the logs complete.
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate()
        err += "\nThe job hung and was stopped."
    return Finished(process.returncode, out, err, job_dir)


def train(
    job_dir: pathlib.Path,
    *arguments: str,
    model: str = "clicks",
    environment: dict[str, str] | None = None,
    folder: pathlib.Path | None = None,
) -> Finished:
    """Runs `elastic_keras train` with a module of the tests' zoo.

    Args:
        job_dir: The job directory.
        *arguments: More flags; they win.
        model: The module's name.
        environment: Variables on top of this process's.
        folder: Working directory.
    """
    return elastic_keras(
        "train",
        f"--model_zoo={ZOO}",
        f"--model_def={model}",
        f"--job_dir={job_dir}",
        "--minibatch_size=16",
        "--records_per_task=64",
        *arguments,
        job_dir=job_dir,
        environment=environment,
        folder=folder,
    )


def write_clicks(path: pathlib.Path, rows: int, seed: int = 0) -> None:
    """Writes a CSV file of made-up clicks: label, id, x.

    Args:
        path: The file.
        rows: Its records.
        seed: Seed of the records.
    """
    random = np.random.default_rng(seed)
    ids = random.integers(0, 40, rows)
    x = random.normal(size=rows)
    taste = np.random.default_rng(7).normal(size=40)
    clicked = random.random(rows) < 1 / (1 + np.exp(-(2 * taste[ids] + x)))
    lines = [
        f"{int(label)},{index},{value:.6f}"
        for label, index, value in zip(clicked, ids, x, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
