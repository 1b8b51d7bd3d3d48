"""Whole evaluations and predictions with a trained model."""

import json
import shutil

import numpy as np
import pytest

import elastic_keras as ek
from elastic_keras.snapshots.folder import SnapshotFolder
from tests.end_to_end.harness import elastic_keras, train, write_clicks

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module", name="job")
def _job(tmp_path_factory):
    """A trained job, and the data that it was evaluated on."""
    folder = tmp_path_factory.mktemp("reading")
    write_clicks(folder / "train.csv", 400, seed=1)
    write_clicks(folder / "validation.csv", 201, seed=3)
    done = train(
        folder / "job",
        f"--training_data={folder}/train.csv",
        f"--validation_data={folder}/validation.csv",
        "--num_workers=2",
        "--num_ps=2",
        "--max_staleness=2",
    )
    done.succeeded()
    return done


def _read(command, job, *arguments):
    done = elastic_keras(
        command, f"--job_dir={job.job_dir}", *arguments, job_dir=job.job_dir
    )
    assert done.code == 0, done.err
    return done


def _bytes(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_a_job_leaves_its_parameters(job):
    (path,) = SnapshotFolder(job.job_dir).all()
    assert job.result["snapshot"] == f"snapshots/{path.name}"


@pytest.mark.parametrize(("workers", "shards"), [(1, 1), (2, 3)])
def test_evaluate_gives_what_training_said(job, workers, shards):
    (path,) = SnapshotFolder(job.job_dir).all()
    before = _bytes(path)
    _read("evaluate", job, f"--num_workers={workers}", f"--num_ps={shards}")
    newest = max(
        job.job_dir.glob("evaluate-*"), key=lambda p: p.stat().st_mtime
    )
    result = json.loads((newest / "result.json").read_text())
    assert result["status"] == "succeeded"
    assert result["records_read"] == result["records_expected"] == 201
    assert result["evaluation"] == pytest.approx(
        job.result["evaluation"], rel=1e-6
    )
    # No row came to be by being looked at.
    trained = sum(s["rows"] for s in job.result["shards"])
    assert sum(s["rows"] for s in result["shards"]) == trained
    assert _bytes(path) == before


def test_predictions_come_in_the_order_of_the_input(job, tmp_path):
    data = job.job_dir.parent / "validation.csv"
    arguments = (f"--prediction_data={data}", "--records_per_task=16")
    one, two = tmp_path / "one.npz", tmp_path / "two.csv"
    _read("predict", job, *arguments, f"--output={one}", "--num_workers=1")
    done = _read(
        "predict",
        job,
        *arguments,
        f"--output={two}",
        "--num_workers=2",
        "--num_ps=1",
    )
    assert f"predictions: {two} (201 examples)" in done.out
    with np.load(one) as file:
        first = file["predictions"]
    second = np.loadtxt(two, skiprows=1, dtype=np.float32)
    assert first.shape == (201, 1)
    np.testing.assert_allclose(first[:, 0], second, rtol=1e-6)
    labels = [int(line[0]) for line in data.read_text().splitlines()]
    auc = _auc(np.array(labels), first[:, 0])
    assert auc == pytest.approx(job.result["evaluation"]["auc"], abs=0.01)


def _auc(labels, scores):
    ones, zeros = scores[labels == 1], scores[labels == 0]
    wins = (ones[:, None] > zeros).mean() + (ones[:, None] == zeros).mean() / 2
    return float(wins)


def test_from_python(job):
    data = job.job_dir.parent / "validation.csv"
    predictions = ek.predict(job.job_dir, prediction_data=data, progress="none")
    assert predictions.shape == (201, 1)
    found = ek.evaluate(job.job_dir, progress="none")
    assert found == pytest.approx(job.result["evaluation"], rel=1e-6)


def test_a_snapshot_alone_is_enough(job, tmp_path):
    (path,) = SnapshotFolder(job.job_dir).all()
    moved = tmp_path / "elsewhere"
    shutil.copytree(path, moved)
    found = ek.evaluate(restore_from=moved, progress="none", num_ps=1)
    assert found == pytest.approx(job.result["evaluation"], rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name the trained job with --job_dir"),
        (["--job_dir=nowhere"], "No such folder. Received: 'nowhere'"),
        (["--job_dir={job}"], "name files with --prediction_data"),
        (
            ["--job_dir={job}", "--prediction_data={data}", "--output=a.txt"],
            "Predictions are written as",
        ),
        (
            ["--job_dir={job}", "--prediction_data={data}", "--num_epochs=2"],
            "Unknown flag",
        ),
    ],
)
def test_wrong_use_is_told(job, tmp_path, arguments, words):
    names = {"job": job.job_dir, "data": job.job_dir.parent / "train.csv"}
    done = elastic_keras(
        "predict",
        *(argument.format(**names) for argument in arguments),
        job_dir=job.job_dir,
        folder=tmp_path,
    )
    assert done.code == 2
    assert words in done.err
    assert len(done.err.strip().splitlines()) <= 2
