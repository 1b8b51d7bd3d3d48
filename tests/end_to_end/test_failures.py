"""Real jobs in which something is killed, interrupted or raises."""

import json
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from tests.end_to_end.harness import ZOO, train, write_clicks

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file of clicks."""
    path = tmp_path_factory.mktemp("clicks") / "train.csv"
    write_clicks(path, 2000)
    return path


def _start(code):
    return subprocess.Popen(
        [sys.executable, "-c", f"import elastic_keras as ek\n{code}"],
        env=os.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _job(job_dir, data, module="slow_worker", num_epochs=1):
    """Returns Python that trains with two workers, one of them slow."""
    return (
        f"ek.train({str(ZOO / f'{module}.py')!r}, "
        f"training_data={str(data)!r}, job_dir={str(job_dir)!r}, "
        "num_workers=2, num_ps=2, staleness_policy='unbounded', "
        "minibatch_size=16, records_per_task=64, progress='plain', "
        f"num_epochs={num_epochs})"
    )


def _wait_for_training(process):
    """Reads the progress lines up to the first trained record."""
    for line in process.stderr:
        if re.search(r"[1-9][\d,]*/[\d,]+ records", line):
            return
    raise AssertionError(f"the job ended: {process.communicate()}")


def _members(process, word=""):
    """Returns the job's processes, those with a word in their command."""
    return [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if word in " ".join(child.cmdline())
    ]


def test_killed_worker_loses_no_record_and_repeats_none(tmp_path, data):
    job_dir = tmp_path / "job"
    # So many that the other worker is not done before the restart.
    job = _job(job_dir, data, num_epochs=10)
    process = _start(f"print({job}.restarts['worker'])")
    _wait_for_training(process)
    workers = _members(process, "elastic_keras.worker.main")
    [slow] = [each for each in workers if "--index=1" in each.cmdline()]
    slow.kill()
    out, err = process.communicate()
    assert process.returncode == 0, err
    result = json.loads((job_dir / "result.json").read_text())
    assert result["records_trained"] == result["records_expected"] == 20000
    assert result["restarts"]["worker"] >= 1
    # In each epoch 31 tasks of 64 records and one of 16, in batches of 16.
    assert result["steps"] == 1250
    for shard in result["shards"]:
        assert shard["version"] == 1250
    assert out.splitlines()[-1] == str(result["restarts"]["worker"])


def test_a_hanging_worker_is_started_again(tmp_path, data):
    """It holds a task and reserved steps while its heartbeats go on."""
    done = train(
        tmp_path / "job",
        f"--training_data={data}",
        f"--validation_data={data}",
        "--num_workers=2",
        "--max_staleness=2",
        "--evaluation_steps=50",
        "--step_timeout_secs=10",
        model="hanging",
        environment={"EK_TEST_MARKER": str(tmp_path / "marker")},
    )
    result = done.succeeded()
    assert (tmp_path / "marker").exists()
    assert result["restarts"]["worker"] >= 1
    assert result["steps"] == 125
    log = (tmp_path / "job" / "logs" / "worker-1.log").read_text()
    assert "This worker is at a training step for 1" in log
    # Where it hangs is in the log.
    assert "in _hang" in log


def test_interrupt_from_python_stops_the_job(tmp_path, data):
    job_dir = tmp_path / "job"
    # So many epochs that the job is not over before the signal.
    process = _start(
        "try:\n"
        f"    {_job(job_dir, data, num_epochs=1000)}\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')"
    )
    _wait_for_training(process)
    members = _members(process)
    assert len(members) == 5
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.splitlines()[-1] == "interrupted"
    assert not any(each.is_running() for each in members)
    result = json.loads((job_dir / "result.json").read_text())
    assert result["status"] == "stopped"


def test_killed_launcher_leaves_no_orphan(tmp_path, data):
    process = _start(_job(tmp_path / "job", data, num_epochs=1000))
    _wait_for_training(process)
    members = _members(process)
    assert len(members) == 5
    process.kill()
    process.communicate()
    # Told apart by pid and start time; the lifeline gives them 5 seconds.
    gone, alive = psutil.wait_procs(members, timeout=60)
    assert alive == []
    assert len(gone) == 5


def test_users_exception_inside_a_running_event_loop(tmp_path, data):
    """As in a notebook, whose cells run inside an event loop."""
    (tmp_path / "mistaken.py").write_text(
        "from clicks import *\n"
        "def dataset_fn(dataset, mode, metadata):\n"
        "    raise KeyError('my own mistake')\n"
    )
    (tmp_path / "clicks.py").write_text((ZOO / "clicks.py").read_text())
    process = _start(
        "import asyncio\n"
        "async def cell():\n"
        "    try:\n"
        f"        ek.train({str(tmp_path / 'mistaken.py')!r},"
        f"training_data={str(data)!r}, job_dir={str(tmp_path / 'job')!r},"
        "progress='none')\n"
        "    except ek.JobFailed as error:\n"
        "        print(error.exit_code, error)\n"
        "asyncio.run(cell())"
    )
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.startswith("1 Traceback (most recent call last):")
    assert "in dataset_fn" in out
    assert out.rstrip().endswith("KeyError: 'my own mistake'")
    assert err == ""
