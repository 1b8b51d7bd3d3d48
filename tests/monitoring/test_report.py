"""The closing lines of a job."""

import pathlib
import sys

import pytest

from elastic_keras.config import DataOptions
from elastic_keras.monitoring import report
from elastic_keras.monitoring.report import (
    closing_lines,
    opening_lines,
    tensorboard_line,
)


@pytest.fixture(autouse=True)
def _on_path(monkeypatch):
    monkeypatch.setattr(report.shutil, "which", lambda name: f"/bin/{name}")


def test_lines_of_a_job_that_succeeded():
    lines = closing_lines(
        {
            "status": "succeeded",
            "steps": 1234,
            "seconds": 61.25,
            "examples_per_second": 4321.0,
            "records_trained": 2000,
            "records_expected": 2000,
            "evaluation": {"auc": 0.7512345678, "loss": None},
            "staleness": {"max": 4, "mean": 1.5, "histogram": [1, 2]},
            "restarts": {"worker": 1, "ps": 0, "master": 0},
        },
        "runs/a job",
    )
    assert lines == [
        "job succeeded: 1,234 steps in 61.2 s, start included; "
        "4,321 examples/s while training",
        "records trained: 2,000 = records x epochs",
        "evaluation: auc 0.751235, loss not finite",
        "staleness: 1.50 versions on average, 4 at most",
        "restarts: worker 1",
        "result: runs/a job/result.json",
        "TensorBoard: tensorboard --logdir 'runs/a job/summaries'",
    ]


def test_a_training_without_an_evaluation_is_told():
    (line,) = opening_lines(DataOptions(training_data="a.csv"))
    assert "Nothing will be evaluated: --validation_data" in line
    data = DataOptions(training_data="a.csv", validation_data="b.csv")
    assert opening_lines(data) == []


def test_missing_records_are_not_passed_over():
    lines = closing_lines(
        {"status": "stopped", "records_trained": 5, "records_expected": 9}, "d"
    )
    assert lines[0] == "job stopped"
    assert lines[1] == "records trained: 5 of 9 (records x epochs)"


def test_a_job_that_counted_nothing_kept_no_promise():
    result = {"status": "failed", "records_trained": 0, "records_expected": 0}
    assert "records trained: 0" in closing_lines(result, "d")


@pytest.mark.parametrize(
    ("examples", "words"),
    [
        (18, []),
        (14, ["examples trained: 14", "batch(drop_remainder=True)"]),
        (36, ["examples trained: 36"]),
    ],
)
def test_examples_are_told_where_they_are_not_the_records(examples, words):
    result = {"records_trained": 18, "records_expected": 18}
    lines = closing_lines({**result, "examples_trained": examples}, "d")
    line = next((x for x in lines if x.startswith("examples")), "")
    assert bool(line) == bool(words)
    assert all(word in line for word in words)
    assert ("drop_remainder" in line) == (0 < examples < 18)


def test_skipped_records_are_counted():
    lines = closing_lines(
        {
            "records_trained": 18,
            "records_expected": 18,
            "bad_records": 2,
        },
        "d",
    )
    assert lines[1] == (
        "records trained: 18 = records x epochs, without 2 bad ones that "
        "were skipped"
    )


@pytest.mark.parametrize(
    ("iterations", "words"),
    [
        ((5, 5), "5 steps"),
        ((3, 2), "5 batches pushed, 3 updates"),
        ((0, 0), "5 steps"),
    ],
)
def test_batches_and_updates_are_told_apart(iterations, words):
    shards = [{"iterations": n} for n in iterations]
    lines = closing_lines({"steps": 5, "shards": shards}, "d")
    assert lines[0] == f"job ended: {words}"


def test_a_job_that_never_trained_has_no_speed():
    lines = closing_lines({"steps": 0, "examples_per_second": 0.0}, "d")
    assert lines[0] == "job ended: 0 steps"


def test_no_staleness_is_not_worth_a_line():
    staleness = {"max": 0, "mean": 0.0, "histogram": [5]}
    lines = closing_lines({"staleness": staleness}, "d")
    assert not [line for line in lines if "staleness" in line]


def test_tensorboard_beside_the_interpreter(monkeypatch, tmp_path):
    monkeypatch.setattr(report.shutil, "which", lambda name: None)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert tensorboard_line("runs/x") == (
        f"TensorBoard: {tmp_path}/python -m tensorboard.main "
        "--logdir runs/x/summaries"
    )
    pathlib.Path(tmp_path / "tensorboard").touch()
    assert tensorboard_line("runs/x") == (
        f"TensorBoard: {tmp_path}/tensorboard --logdir runs/x/summaries"
    )
