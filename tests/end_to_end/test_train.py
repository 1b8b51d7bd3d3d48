"""Whole jobs: master, workers and shards as real processes."""

import json

import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator

from tests.end_to_end.harness import train, write_clicks

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with 800 clicks to train on and 200 to evaluate on."""
    folder = tmp_path_factory.mktemp("clicks")
    write_clicks(folder / "train-0.csv", 500, seed=1)
    write_clicks(folder / "train-1.csv", 300, seed=2)
    write_clicks(folder / "validation.csv", 200, seed=3)
    return folder


def test_plain_run_leaves_everything(tmp_path, data):
    done = train(
        tmp_path / "job",
        f"--training_data={data}/train-*.csv",
        f"--validation_data={data}/validation.csv",
        "--num_workers=2",
        "--num_ps=2",
        "--max_staleness=4",
        "--num_epochs=3",
        "--summary_secs=0.2",
    )
    result = done.succeeded()
    assert result["records_trained"] == 3 * 800
    assert result["epochs"] == 3
    # Tasks of 64 records and the rest of each file, in batches of 16.
    assert result["steps"] == 3 * (32 + 19)
    assert 0.6 < result["evaluation"]["auc"] <= 1.0
    # Between a step's pull and its push the other worker goes from 4 steps
    # behind to 5 ahead, and 4 steps of this one land.
    assert result["staleness"]["max"] <= 4 + 4 + 5
    assert sum(result["staleness"]["histogram"]) > 0
    assert len(result["shards"]) == 2
    for shard in result["shards"]:
        assert shard["version"] == result["steps"]
    rows = [shard["tables"]["taste"]["rows"] for shard in result["shards"]]
    assert sum(rows) == 40
    assert min(rows) > 0
    assert result["restarts"] == {"worker": 0, "ps": 0, "master": 0}
    assert "records trained: 2,400 = records x epochs" in done.out
    assert f"result: {done.job_dir}/result.json" in done.out
    assert f"tensorboard --logdir {done.job_dir}/summaries" in done.out
    assert "Traceback" not in done.logs
    logs = {path.name for path in (done.job_dir / "logs").iterdir()}
    assert logs == {
        "master.log",
        "ps-0.log",
        "ps-1.log",
        "worker-0.log",
        "worker-1.log",
    }
    _check_summaries(done.job_dir / "summaries")


def _check_summaries(folder):
    tags = set()
    for run in {path.parent for path in folder.rglob("events.out.*")}:
        loaded = event_accumulator.EventAccumulator(str(run))
        loaded.Reload()
        tags |= set(loaded.Tags()["tensors"])
    for part in ("loss", "auc", "examples", "staleness", "pull", "push"):
        assert any(part in tag for tag in tags), f"{part} not in {tags}"


def test_four_workers_count_every_step(tmp_path, data):
    done = train(
        tmp_path / "job",
        f"--training_data={data}/train-*.csv",
        "--num_workers=4",
        "--num_ps=2",
        "--max_staleness=8",
        "--num_epochs=2",
    )
    result = done.succeeded()
    assert result["steps"] == 2 * (32 + 19)
    for shard in result["shards"]:
        assert shard["iterations"] == shard["version"] == result["steps"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--staleness_policy=wait", "--max_staleness=2"],
        ["--staleness_policy=recompute", "--max_staleness=2"],
        ["--staleness_policy=dampen", "--max_staleness=2"],
        ["--staleness_policy=unbounded"],
    ],
    ids=["wait", "recompute", "dampen", "unbounded"],
)
def test_policies_with_one_slow_worker(tmp_path, data, flags):
    done = train(
        tmp_path / "job",
        f"--training_data={data}/train-*.csv",
        "--num_workers=2",
        "--num_ps=2",
        "--num_epochs=2",
        *flags,
        model="slow_worker",
    )
    result = done.succeeded()
    assert result["records_trained"] == 2 * 800
    assert result["steps"] == 2 * (32 + 19)
    for shard in result["shards"]:
        assert shard["version"] == result["steps"]
    if flags[0].endswith("recompute"):
        assert result["staleness"]["max"] <= 2


def test_deterministic_runs_have_the_same_bits(tmp_path, data):
    """Two runs, the second on three shards instead of one."""
    ends = []
    for name, shards in [("one", 1), ("three", 3)]:
        folder = tmp_path / name
        folder.mkdir()
        done = train(
            folder / "job",
            f"--training_data={data}/train-*.csv",
            f"--validation_data={data}/validation.csv",
            "--deterministic",
            f"--num_ps={shards}",
            "--num_epochs=2",
            "--seed=5",
            model="witness",
            environment={"EK_WITNESS": str(folder)},
        )
        result = done.succeeded()
        with np.load(folder / "dense.npz") as dense:
            values = {key: dense[key].tobytes() for key in dense.files}
        ends.append((result["evaluation"], values))
        _check_hooks(folder / "heard.json", result)
    (evaluation, dense), (other_evaluation, other_dense) = ends
    assert evaluation == other_evaluation
    assert len(dense) == 4
    assert dense == other_dense


def _check_hooks(path, result):
    heard = json.loads(path.read_text())
    assert [hook for hook, _ in heard] == [
        "train begin",
        "epoch 0 end",
        "epoch 1 end",
        "train end",
    ]
    logs = heard[2][1]
    assert set(logs) >= {"loss", "auc", "val_loss", "val_auc"}
    assert logs["val_auc"] == result["evaluation"]["auc"]


def test_every_record_but_the_broken_ones_is_trained_once_an_epoch(tmp_path):
    broken = {0, 77, 78, 500, 899}
    good = [i for i in range(900) if i not in broken]
    lines = [f"{i},{'oops' if i in broken else 2}\n" for i in range(900)]
    # The number of columns is not that of the first record.
    (tmp_path / "train.csv").write_text("900,1,1\n" + "".join(lines))
    (tmp_path / "good.csv").write_text("".join(f"{i},2\n" for i in good))
    done = train(
        tmp_path / "job",
        f"--training_data={tmp_path}/train.csv",
        f"--validation_data={tmp_path}/good.csv",
        "--bad_records=skip",
        "--records_per_task=300",
        "--num_workers=2",
        "--num_ps=2",
        "--num_epochs=2",
        model="counting",
    )
    result = done.succeeded()
    assert result["records_trained"] == 2 * len(good)
    assert result["bad_records"] == 2 * (len(broken) + 1)
    rows = [shard["tables"]["count"]["rows"] for shard in result["shards"]]
    assert sum(rows) == len(good)
    # What a row counts is what its label says: two epochs.
    assert result["evaluation"]["mae"] == 0.0
