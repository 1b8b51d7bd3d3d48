"""The local launcher with stand-ins for the processes of a job."""

import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import threading
import time

import psutil
import pytest

from elastic_keras.cluster.job_directory import make_job_directory
from elastic_keras.config import ConfigError, JobConfig
from tests.cluster import stand_ins

pytestmark = pytest.mark.end_to_end

_PATIENCE = 60.0


def _run(scenario, tmp_path, **options):
    config = JobConfig.from_options(
        job_dir=str(tmp_path / "job"), num_workers=2, num_ps=2, **options
    )
    phases = []
    outcome = stand_ins.launcher(scenario).run(
        config, lambda status: phases.append(status.phase)
    )
    return outcome, phases


def _wait_until(condition):
    """Polls a condition; the deadline only guards against a hang."""
    end = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition was never met"
        threading.Event().wait(0.05)


def _processes(job_dir: pathlib.Path):
    """Returns the processes that a job has started and that still live."""
    found = []
    for path in job_dir.glob("*.pids"):
        for pid in path.read_text().split():
            try:
                process = psutil.Process(int(pid))
                if str(job_dir) in process.cmdline():
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                continue
    return found


def _launch(scenario, job_dir):
    """Starts a launcher as a process; returns once its job is running."""
    launcher = subprocess.Popen(
        [sys.executable, stand_ins.__file__, "launch", "0", job_dir, scenario]
    )
    _wait_until((job_dir / "watched").exists)
    _wait_until(lambda: len(_processes(job_dir)) == 5)
    return launcher


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_job_succeeds_and_leaves_nothing_behind(tmp_path, transport):
    outcome, phases = _run("plain", tmp_path, transport=transport)
    assert (outcome.status, outcome.exit_code) == ("succeeded", 0)
    assert phases == ["training", "succeeded"]
    assert _processes(tmp_path / "job") == []
    config = json.loads((tmp_path / "job" / "config.json").read_text())
    assert len(config["ps_addresses"]) == 2
    for address in config["ps_addresses"]:
        assert not os.path.exists(address.removeprefix("unix:"))


def test_token_is_in_one_private_file_and_on_no_command_line(tmp_path):
    job_dir = tmp_path / "job"
    launcher = _launch("endless", job_dir)
    processes = _processes(job_dir)
    token = processes[0].environ()["EK_JOB_TOKEN"]
    assert len(token) >= 32
    assert all(each.environ()["EK_JOB_TOKEN"] == token for each in processes)
    assert not any(token in " ".join(each.cmdline()) for each in processes)
    files = [path for path in job_dir.rglob("*") if path.is_file()]
    holders = [path for path in files if token in path.read_text()]
    assert holders == [job_dir / ".token"]
    assert stat.S_IMODE(holders[0].stat().st_mode) == 0o600
    launcher.send_signal(signal.SIGINT)
    assert launcher.wait(_PATIENCE) == 130
    assert not holders[0].exists()


def test_wrong_use_in_one_worker_ends_the_job(tmp_path):
    outcome, _ = _run("endless-wrong", tmp_path)
    assert (outcome.status, outcome.exit_code) == ("failed", 2)
    assert outcome.error == "The module has no loss. Received: loss=None"
    assert _processes(tmp_path / "job") == []
    result = json.loads((tmp_path / "job" / "result.json").read_text())
    assert result["status"] == "failed"


def test_result_of_a_master_that_does_not_know_says_what_failed(tmp_path):
    outcome, _ = _run("endless-crash-leaves", tmp_path)
    result = json.loads((tmp_path / "job" / "result.json").read_text())
    assert (result["status"], result["exit_code"]) == ("failed", 1)
    assert result["error"] == outcome.error
    assert (result["steps"], result["ended_by"]) == (5, "error")


def test_failure_that_the_master_reports(tmp_path):
    outcome, phases = _run("raises", tmp_path)
    assert phases[-1] == "failed"
    assert (outcome.exit_code, outcome.error) == (1, "Traceback: theirs")


def test_killed_worker_is_started_again(tmp_path):
    outcome, _ = _run("restart-death", tmp_path)
    assert outcome.status == "succeeded"
    restarts = json.loads((tmp_path / "job" / "restarts.json").read_text())
    assert restarts["worker"] >= 1
    pids = (tmp_path / "job" / "worker-0.pids").read_text().split()
    assert len(pids) == len(set(pids)) == 2
    # The master hears of it at once, not by missing heartbeats.
    left = (tmp_path / "job" / "left").read_text().splitlines()
    assert f"0 {pids[0]}" in left


def test_killed_master_is_started_again(tmp_path):
    outcome, _ = _run("headless", tmp_path)
    assert outcome.status == "succeeded"
    restarts = json.loads((tmp_path / "job" / "restarts.json").read_text())
    assert restarts == {"master": 1, "ps": 0, "worker": 0}
    assert len((tmp_path / "job" / "master.pids").read_text().split()) == 2


def test_workers_come_and_go_as_the_master_says(tmp_path):
    outcome, _ = _run("scales", tmp_path)
    assert outcome.status == "succeeded"
    job_dir = tmp_path / "job"
    for index in range(3):
        pids = (job_dir / f"worker-{index}.pids").read_text().split()
        assert len(pids) == 1
    left = (job_dir / "left").read_text().splitlines()
    assert sorted(line.split()[0] for line in left) == ["1", "2"]
    config = json.loads((job_dir / "config.json").read_text())
    assert config["cluster"]["num_workers"] == 1
    restarts = json.loads((job_dir / "restarts.json").read_text())
    assert restarts["worker"] == 0


def test_a_directory_belongs_to_one_launcher(tmp_path):
    made = make_job_directory(
        JobConfig.from_options(job_dir=str(tmp_path / "job"))
    )
    refused = pytest.raises(ConfigError, match="The job is running")
    with made.locked(), refused, made.locked(patience=0.2):
        raise AssertionError("Two launchers hold it.")
    with made.locked(patience=0.0):
        pass


def test_workers_that_keep_crashing_end_the_job(tmp_path):
    outcome, _ = _run("endless-crash", tmp_path)
    assert (outcome.status, outcome.exit_code) == ("failed", 1)
    assert "makes no progress" in outcome.error
    assert "ended with exit code 70" in outcome.error
    assert "RuntimeError: a crash" in outcome.error


def test_dead_shard_without_a_journal_ends_the_job(tmp_path):
    outcome, _ = _run(
        "endless-shardless", tmp_path, training_data="x", journal=False
    )
    assert (outcome.status, outcome.exit_code) == ("failed", 1)
    assert outcome.error.startswith("ps-1 ended with exit code 70")


def test_killed_shard_is_started_again(tmp_path):
    outcome, _ = _run("restart-shot", tmp_path, training_data="x")
    assert outcome.status == "succeeded"
    restarts = json.loads((tmp_path / "job" / "restarts.json").read_text())
    assert restarts["ps"] == 1
    pids = (tmp_path / "job" / "ps-1.pids").read_text().split()
    assert len(pids) == len(set(pids)) == 2


def test_shards_that_keep_dying_end_the_job(tmp_path):
    outcome, _ = _run("endless-shardless", tmp_path)
    assert (outcome.status, outcome.exit_code) == ("failed", 1)
    assert "makes no progress" in outcome.error
    assert "ps-1 ended with exit code 70" in outcome.error


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_signal_stops_the_job_in_order(tmp_path, number, code):
    job_dir = tmp_path / "job"
    launcher = _launch("endless", job_dir)
    launcher.send_signal(number)
    assert launcher.wait(_PATIENCE) == code
    assert _processes(job_dir) == []
    assert json.loads((job_dir / "result.json").read_text())["status"] == (
        "stopped"
    )


def test_second_signal_kills(tmp_path):
    job_dir = tmp_path / "job"
    launcher = _launch("endless-deaf-stubborn", job_dir)
    processes = _processes(job_dir)
    launcher.send_signal(signal.SIGINT)
    # Signals of a kind do not queue: wait until the first one is taken.
    _wait_until(lambda: signal.SIGINT not in _pending(launcher.pid))
    launcher.send_signal(signal.SIGINT)
    assert launcher.wait(_PATIENCE) == 130
    assert not any(each.is_running() for each in processes)


def _pending(pid):
    """Returns the signals that wait to be taken by a process."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    masks = [
        int(line.split()[1], 16)
        for line in text.splitlines()
        if line.startswith(("SigPnd", "ShdPnd"))
    ]
    return {
        number
        for number in signal.Signals
        if any(mask >> (number - 1) & 1 for mask in masks)
    }


@pytest.mark.parametrize("scenario", ["endless", "endless-stubborn"])
def test_no_orphans_after_the_launcher_is_killed(tmp_path, scenario):
    job_dir = tmp_path / "job"
    launcher = _launch(scenario, job_dir)
    processes = _processes(job_dir)
    config = json.loads((job_dir / "config.json").read_text())
    folder = os.path.dirname(config["master_address"].removeprefix("unix:"))
    assert os.path.isdir(folder)
    assert (job_dir / ".token").exists()
    launcher.kill()
    launcher.wait(_PATIENCE)
    # psutil tells a process by its pid and its start time.
    _wait_until(lambda: not any(each.is_running() for each in processes))
    assert not os.path.exists(folder)
    assert not (job_dir / ".token").exists()


def test_directory_of_another_job_is_refused(tmp_path):
    _run("plain", tmp_path)
    with pytest.raises(ConfigError, match="holds another job already"):
        _run("plain", tmp_path)
