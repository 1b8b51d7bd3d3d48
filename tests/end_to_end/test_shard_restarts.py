"""Real jobs whose shards are killed while they train."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest

from elastic_keras.snapshots.folder import open_snapshot
from tests.end_to_end.harness import ZOO, write_clicks

pytestmark = pytest.mark.end_to_end

_PATIENCE = 120.0


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file of clicks."""
    path = tmp_path_factory.mktemp("clicks") / "train.csv"
    write_clicks(path, 1000)
    return path


def _until(condition, process):
    end = time.monotonic() + _PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end, "the condition never held"
        threading.Event().wait(0.01)


class _Job:
    """A job that trains in the background."""

    def __init__(self, folder, data, model, *flags, epochs=4):
        self.folder = pathlib.Path(folder)
        self.job_dir = self.folder / "job"
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "elastic_keras.cli",
                "train",
                f"--model_zoo={ZOO}",
                f"--model_def={model}",
                f"--training_data={data}",
                f"--job_dir={self.job_dir}",
                "--minibatch_size=16",
                "--records_per_task=64",
                f"--num_epochs={epochs}",
                "--num_ps=2",
                "--progress=none",
                *flags,
            ],
            env=os.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill_shards(self, times):
        """Kills one shard after the other, each time while it is pushed to."""
        for number in range(times):
            self._kill(number % 2)

    def _kill(self, index):
        grown = self._journal_bytes(index) + 20_000
        _until(lambda: self._journal_bytes(index) > grown, self.process)
        (shard,) = [
            child
            for child in psutil.Process(self.process.pid).children()
            if f"--index={index}" in child.cmdline()
            and "elastic_keras.ps.main" in child.cmdline()
        ]
        restores = self._restores()
        shard.send_signal(signal.SIGKILL)
        _until(lambda: self._restores() > restores, self.process)

    def result(self):
        """Waits for the end; returns result.json."""
        out, err = self.process.communicate(timeout=_PATIENCE)
        logs = self.job_dir / "logs"
        ends = [path.read_text()[-2000:] for path in sorted(logs.glob("*"))]
        assert self.process.returncode == 0, (out, err, *ends)
        return json.loads((self.job_dir / "result.json").read_text())

    def bits(self):
        """Returns the bits of all that was trained, slots included."""
        snapshot = open_snapshot(self.job_dir)
        dense = snapshot.dense()
        arrays = [dense.values, dense.states, *dense.slots.values()]
        for rows in snapshot.parts(0, slots=True):
            arrays += [rows.ids, rows.weights, *rows.slots.values()]
        return [array.tobytes() for array in arrays]

    def _journal_bytes(self, index):
        folder = self.job_dir / "journal" / f"ps-{index}"
        return sum(path.stat().st_size for path in folder.glob("segment-*"))

    def _restores(self):
        return sum(
            (self.job_dir / "logs" / f"ps-{index}.log")
            .read_text()
            .count("restored version")
            for index in range(2)
        )


@pytest.mark.slow
def test_killed_shards_change_no_bit(tmp_path, data):
    ends = []
    for name, kills in [("quiet", 0), ("killed", 2)]:
        folder = tmp_path / name
        folder.mkdir()
        job = _Job(folder, data, "clicks", "--deterministic", "--seed=5")
        job.kill_shards(kills)
        result = job.result()
        assert result["records_trained"] == result["records_expected"] == 4000
        assert result["restarts"]["ps"] == kills
        ends.append((result["steps"], result["evaluation"], job.bits()))
    assert ends[0] == ends[1]


def test_killed_shards_lose_no_batch_of_many_workers(tmp_path, data):
    job = _Job(
        tmp_path,
        data,
        "clicks",
        "--num_workers=2",
        "--max_staleness=4",
        "--grads_to_wait=2",
        epochs=8,
    )
    job.kill_shards(3)
    result = job.result()
    assert result["records_trained"] == result["records_expected"] == 8000
    assert result["restarts"] == {"worker": 0, "ps": 3, "master": 0}
