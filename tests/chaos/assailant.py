"""A job in a process tree of its own, and who kills its members."""

import pathlib
import random
import re
import subprocess
import sys
import threading
import time

import psutil

from tests.end_to_end.harness import ZOO, as_a_user

ROLES = ("worker", "ps", "master")
_PATIENCE = 120.0
_RECORDS = re.compile(r"([\d,]+)/[\d,]+ records")


class RunningJob:
    """`elastic_keras train` with the tests' module of clicks.

    Args:
        job_dir: The job directory.
        *flags: More flags.
    """

    def __init__(self, job_dir: pathlib.Path, *flags: str) -> None:
        self.job_dir = job_dir
        self.records = 0
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "elastic_keras.cli",
                "train",
                f"--model_zoo={ZOO}",
                "--model_def=clicks",
                f"--job_dir={job_dir}",
                "--minibatch_size=16",
                "--records_per_task=64",
                "--progress=plain",
                *flags,
            ],
            env=as_a_user(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stderr:
            self.lines.append(line)
            if found := _RECORDS.search(line):
                self.records = int(found[1].replace(",", ""))

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    def members(self, role: str) -> dict[int, psutil.Process]:
        """Returns the live processes of a role by their number."""
        found = {}
        try:
            children = psutil.Process(self._process.pid).children(True)
        except psutil.NoSuchProcess:
            return {}
        for child in children:
            try:
                command = child.cmdline()
            except psutil.Error:
                continue
            if f"elastic_keras.{role}.main" in command:
                found[child.pid] = child
        return found

    def wait_for(self, holds, what: str) -> bool:
        """Waits for a condition; returns whether the job still runs."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if holds():
                return True
            if self.is_over:
                return False
            time.sleep(0.01)
        raise AssertionError(f"no {what} in time\n{self.told()}")

    def wait_for_records(self, more: int = 1) -> bool:
        """Waits until so many more records were trained."""
        wanted = self.records + more
        return self.wait_for(lambda: self.records >= wanted, "progress")

    def kill(self, role: str, chance: random.Random) -> bool:
        """Kills a member; returns whether one of its kind came after it."""
        before = self.members(role)
        if not before:
            return False
        chance.choice(sorted(before.values(), key=lambda p: p.pid)).kill()
        return self.wait_for(
            lambda: set(self.members(role)) - set(before), f"new {role}"
        )

    def kill_all(self) -> None:
        """Kills the launcher and every process of the job."""
        family = [psutil.Process(self._process.pid)]
        family += family[0].children(True)
        for each in family:
            each.kill()
        psutil.wait_procs(family, timeout=30)
        self.end()

    def end(self) -> int:
        """Waits for the job's end; returns its exit code."""
        code = self._process.wait(timeout=_PATIENCE)
        self._reader.join()
        return code

    def told(self) -> str:
        """Returns what it printed last, and the ends of its logs."""
        logs = sorted((self.job_dir / "logs").glob("*.log"))
        return "".join(
            [
                *self.lines[-15:],
                *(f"--- {p.name}\n{p.read_text()[-2500:]}" for p in logs),
            ]
        )
