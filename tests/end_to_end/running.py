"""A job that trains in the background, to be disturbed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil

from elastic_keras.config import ConfigError
from elastic_keras.master import state_file
from elastic_keras.snapshots.folder import open_snapshot
from tests.end_to_end.harness import ZOO

_PATIENCE = 120.0


class RunningJob:
    """`elastic_keras train` as a process.

    Args:
        job_dir: The job directory.
        *flags: More flags; they win.
        model: The module's name; empty gives `--job_dir` and flags only.
    """

    def __init__(
        self, job_dir: pathlib.Path, *flags: str, model: str = "clicks"
    ) -> None:
        self.job_dir = job_dir
        usual = [
            f"--model_zoo={ZOO}",
            f"--model_def={model}",
            "--minibatch_size=16",
            "--records_per_task=64",
        ]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "elastic_keras.cli",
                "train",
                f"--job_dir={job_dir}",
                *(usual if model else ()),
                "--progress=none",
                *flags,
            ],
            env=os.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def children(self, word: str = "") -> list[psutil.Process]:
        """Returns the job's processes with a word in their command."""
        found = []
        for child in psutil.Process(self._process.pid).children():
            try:
                if word in " ".join(child.cmdline()):
                    found.append(child)
            except psutil.NoSuchProcess:
                continue
        return found

    def until_trained(self, records: int) -> None:
        """Waits until finished tasks come to so many records."""

        def trained() -> bool:
            try:
                state = state_file.read(self.job_dir)
            except ConfigError:
                return False
            if not state or not state["flow"]:
                return False
            epochs = state["flow"]["tasks"]["epochs"]
            return sum(e["counts"]["records"] for e in epochs) >= records

        self.until(trained)

    def until(self, condition) -> None:
        """Polls a condition; the deadline only guards against a hang."""
        end = time.monotonic() + _PATIENCE
        while not condition():
            assert self._process.poll() is None, self._process.communicate()
            assert time.monotonic() < end, f"never came\n{self.logs}"
            threading.Event().wait(0.01)

    def kill_master(self) -> None:
        """Kills the master, and waits until there is another."""
        [master] = self.children("elastic_keras.master.main")
        master.send_signal(signal.SIGKILL)
        self.until(
            lambda: any(
                each.pid != master.pid
                for each in self.children("elastic_keras.master.main")
            )
        )

    def kill_all(self) -> None:
        """Kills every process of the job, the launcher first."""
        everyone = self.children()
        self._process.kill()
        for each in everyone:
            each.kill()
        self._process.communicate()
        psutil.wait_procs(everyone, timeout=60)

    def end_launcher(self, number: int) -> None:
        """Sends the launcher a signal, and waits for its end alone."""
        self._process.send_signal(number)
        self._process.wait(_PATIENCE)

    def succeeded(self) -> dict:
        """Waits for the end; returns the result of a job that succeeded."""
        try:
            _, err = self._process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGTERM)
            _, err = self._process.communicate()
            err += "\nThe job hung and was stopped."
        assert self._process.returncode == 0, f"{err}\n{self.logs}"
        result = json.loads((self.job_dir / "result.json").read_text())
        assert result["status"] == "succeeded"
        assert result["records_trained"] == result["records_expected"]
        return result

    @property
    def logs(self) -> str:
        """The end of every log, to read when a test fails."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text()[-3000:]}"
            for path in sorted((self.job_dir / "logs").glob("*.log"))
        )


def trained_bits(job_dir: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns all that a job's newest snapshot holds, in order of ids."""
    snapshot = open_snapshot(job_dir)
    dense = snapshot.dense()
    arrays = {"dense": dense.values, "states": dense.states, **dense.slots}
    for table, _ in enumerate(snapshot.signature.tables):
        parts = list(snapshot.parts(table, slots=True))
        ids = np.concatenate([part.ids for part in parts])
        order = np.argsort(ids)
        arrays[f"{table} ids"] = ids[order]
        rows = np.concatenate([part.weights for part in parts])
        arrays[f"{table} rows"] = rows[order]
        for name in parts[0].slots:
            slot = np.concatenate([part.slots[name] for part in parts])
            arrays[f"{table} {name}"] = slot[order]
    return arrays
