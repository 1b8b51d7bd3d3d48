"""Real jobs whose master is killed, and jobs that are killed whole."""

import json
import signal

import numpy as np
import pytest

from elastic_keras.snapshots.folder import SnapshotFolder
from tests.end_to_end.harness import elastic_keras, train, write_clicks
from tests.end_to_end.running import RunningJob, trained_bits

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file of clicks: 63 batches of 16 in an epoch."""
    path = tmp_path_factory.mktemp("clicks") / "train.csv"
    write_clicks(path, 1000)
    return path


@pytest.mark.slow
def test_a_master_killed_twice_loses_no_record(tmp_path, data):
    job = RunningJob(
        tmp_path / "job",
        f"--training_data={data}",
        f"--validation_data={data}",
        "--num_workers=2",
        "--num_ps=2",
        "--max_staleness=2",
        "--num_epochs=8",
        "--evaluation_steps=100",
        "--snapshot_steps=75",
        "--keep_snapshots=2",
    )
    for records in (1500, 4000):
        job.until_trained(records)
        job.kill_master()
    result = job.succeeded()
    assert result["records_trained"] == 8000
    assert result["steps"] == 504
    assert [shard["version"] for shard in result["shards"]] == [504, 504]
    steps = [each["step"] for each in result["evaluations"]]
    assert steps == [100, 200, 300, 400, 500, 504]
    assert [each["epoch"] for each in result["history"]] == [*range(1, 9)]
    assert result["restarts"]["master"] == 2
    assert result["restarts"]["worker"] == 0
    kept = [path.name for path in SnapshotFolder(job.job_dir).all()]
    assert kept == ["step-000000450", "step-000000504"]


@pytest.mark.slow
def test_a_killed_master_leaves_the_same_bits(tmp_path, data):
    flags = [
        f"--training_data={data}",
        "--deterministic",
        "--num_ps=2",
        "--num_epochs=4",
    ]
    train(tmp_path / "undisturbed", *flags).succeeded()
    job = RunningJob(tmp_path / "disturbed", *flags)
    job.until_trained(1100)
    job.kill_master()
    assert job.succeeded()["restarts"]["master"] == 1
    expected = trained_bits(tmp_path / "undisturbed")
    found = trained_bits(tmp_path / "disturbed")
    assert expected.keys() == found.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(array, found[name], err_msg=name)


def test_a_job_that_is_killed_whole_goes_on(tmp_path, data):
    flags = [
        f"--training_data={data}",
        "--deterministic",
        # One: a batch that only some of several shards had is computed
        # again, from what is by then on each of them.
        "--num_ps=1",
        "--num_epochs=4",
        "--snapshot_steps=30",
    ]
    train(tmp_path / "undisturbed", *flags).succeeded()
    job_dir = tmp_path / "job"
    job = RunningJob(job_dir, *flags)
    job.until_trained(1100)
    job.kill_all()
    # What is not given is as it was.
    result = RunningJob(job_dir, model="").succeeded()
    assert result["steps"] == 252
    assert result["records_trained"] == 4000
    expected, found = (
        trained_bits(each) for each in (tmp_path / "undisturbed", job_dir)
    )
    for name, array in expected.items():
        np.testing.assert_array_equal(array, found[name], err_msg=name)
    before = (job_dir / "result.json").read_text()
    again = train(job_dir)
    assert again.code == 0
    assert "This training is finished" in again.err
    assert (job_dir / "result.json").read_text() == before
    other = train(job_dir, "--num_ps=3")
    assert other.code == 2
    assert "--num_ps cannot change" in other.err
    assert "Received: num_ps=3" in other.err


def test_a_new_job_goes_on_where_a_snapshot_was_taken(tmp_path, data):
    first = RunningJob(
        tmp_path / "first",
        f"--training_data={data}",
        "--num_ps=1",
        "--num_epochs=3",
        "--snapshot_steps=40",
        "--keep_snapshots=0",
    )
    first.succeeded()
    snapshots = SnapshotFolder(first.job_dir).all()
    assert [int(path.name[5:]) for path in snapshots] == [40, 80, 120, 160, 189]
    # In the middle of the second epoch and of a task, on more shards.
    second = RunningJob(
        tmp_path / "second", f"--restore_from={snapshots[1]}", "--num_ps=3",
        model="",
    )  # fmt: skip
    result = second.succeeded()
    assert result["steps"] == 189
    assert result["records_trained"] == 3000
    assert [s["iterations"] for s in result["shards"]] == [189] * 3
    state = json.loads((tmp_path / "second" / "config.json").read_text())
    assert state["cluster"]["num_ps"] == 3


@pytest.mark.slow
def test_workers_come_and_go_while_the_job_trains(tmp_path, data):
    job_dir = tmp_path / "job"
    job = RunningJob(
        job_dir,
        f"--training_data={data}",
        "--num_workers=1",
        "--num_ps=2",
        "--max_staleness=2",
        "--num_epochs=120",
    )
    job.until_trained(200)

    def scale(count):
        done = elastic_keras(
            "scale", str(job_dir), f"--num_workers={count}", job_dir=job_dir
        )
        assert done.code == 0, done.err
        assert done.out == f"The job is to have {count} workers.\n"

    def configured():
        config = json.loads((job_dir / "config.json").read_text())
        return config["cluster"]["num_workers"]

    def workers():
        return len(job.children("elastic_keras.worker.main"))

    scale(2)
    log = job_dir / "logs" / "worker-1.log"
    job.until(lambda: log.exists() and "Joined as worker" in log.read_text())
    assert configured() == 2
    scale(1)
    job.until(lambda: configured() == 1 and workers() == 1)
    result = job.succeeded()
    assert result["records_trained"] == 120_000
    assert result["steps"] == 120 * 63
    # Nobody died.
    assert result["restarts"]["worker"] == 0
    over = elastic_keras(
        "scale", str(job_dir), "--num_workers=3", job_dir=job_dir
    )
    assert over.code == 2
    assert "The job is not running" in over.err


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_job_whose_launcher_ends_goes_on_at_once(tmp_path, data, how):
    """Processes of the former launcher may be leaving at that moment."""
    job_dir = tmp_path / "job"
    job = RunningJob(
        job_dir,
        f"--training_data={data}",
        "--num_workers=2",
        "--num_ps=2",
        "--max_staleness=1",
        "--num_epochs=20",
        "--evaluation_steps=200",
        f"--validation_data={data}",
    )
    job.until_trained(3000)
    job.end_launcher(how)
    result = RunningJob(job_dir, "--num_workers=1", model="").succeeded()
    assert result["records_trained"] == 20_000
    assert result["steps"] == 20 * 63
    steps = [each["step"] for each in result["evaluations"]]
    assert steps == [*range(200, 1260, 200), 1260]
