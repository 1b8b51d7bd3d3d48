"""A job seen from outside while it runs, and after its end."""

import json
import socket
import threading
import time
import urllib.request
from concurrent import futures

import pytest

from tests.end_to_end.harness import elastic_keras, train, write_clicks

pytestmark = pytest.mark.end_to_end

_PATIENCE = 200.0


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def job(tmp_path):
    """A job that goes on once it is told to: directory, port, tell, end."""
    write_clicks(tmp_path / "train.csv", 640)
    marker = tmp_path / "go on"
    port = _free_port()
    with futures.ThreadPoolExecutor(1) as pool:
        end = pool.submit(
            train,
            tmp_path / "job",
            f"--training_data={tmp_path}/train.csv",
            f"--validation_data={tmp_path}/train.csv",
            "--num_workers=2",
            "--num_ps=2",
            "--max_staleness=4",
            "--heartbeat_secs=0.5",
            f"--metrics_port={port}",
            model="waiting",
            environment={"EK_TEST_MARKER": str(marker)},
        )
        try:
            yield tmp_path / "job", port, marker.touch, end
        finally:
            marker.touch()


def _status(job_dir, *arguments):
    return elastic_keras("status", str(job_dir), *arguments, job_dir=job_dir)


def _look_until(job_dir, holds):
    """Asks until the answer is as wanted; guards against a hang."""
    end = time.monotonic() + _PATIENCE
    while True:
        done = _status(job_dir, "--json")
        # Before there is a directory that is wrong use.
        if done.code == 0 and holds(raw := json.loads(done.out)):
            return raw
        assert time.monotonic() < end, done
        threading.Event().wait(0.2)


def _all_wait(raw):
    # Heartbeats and the shards' reports come after the steps.
    return (
        len(raw["shards"]) == 2
        and all(worker["steps"] == 8 for worker in raw["workers"])
        and all(shard["version"] == 16 for shard in raw["shards"])
    )


def test_a_job_while_it_runs_and_after_its_end(job):
    job_dir, port, go_on, end = job
    raw = _look_until(job_dir, _all_wait)
    assert (raw["running"], raw["phase"]) == (True, "training")
    assert raw["steps"] == 16
    assert raw["records_done"] == 16 * 16
    assert raw["records_expected"] == 640
    assert [worker["index"] for worker in raw["workers"]] == [0, 1]
    assert all(worker["alive"] for worker in raw["workers"])
    assert sum(shard["rows"] for shard in raw["shards"]) > 30
    assert all(shard["pulled_bytes"] > 0 for shard in raw["shards"])
    # They have the next ones already.
    assert raw["tasks_running"] >= 2
    assert raw["loss"] > 0
    assert raw["restarts"] == {"worker": 0, "ps": 0, "master": 0}

    shown = _status(job_dir, "--once")
    assert shown.code == 0, shown.err
    assert "256/640 records, 16 steps" in shown.out

    url = f"http://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url) as reply:
        text = reply.read().decode()
    assert 'elastic_keras_phase{phase="training"} 1.0\n' in text
    assert 'elastic_keras_worker_steps_total{worker="1"} 8.0\n' in text
    assert 'elastic_keras_shard_pushes_total{shard="0"} 16\n' in text

    go_on()
    end.result().succeeded()
    done = _status(job_dir, "--json")
    assert done.code == 0, done.err
    raw = json.loads(done.out)
    assert (raw["running"], raw["phase"]) == (False, "succeeded")
    assert (raw["steps"], raw["records_done"]) == (40, 640)
    assert raw["evaluation"]["auc"] > 0
    assert not (job_dir / ".token").exists()

    looked = elastic_keras(
        "inspect", str(job_dir), "--id=3", "--json", job_dir=job_dir
    )
    assert looked.code == 0, looked.err
    assert json.loads(looked.out)["exists"]
