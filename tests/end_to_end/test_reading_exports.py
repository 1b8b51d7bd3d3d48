"""Evaluations and predictions by an export whose job is gone."""

import dataclasses
import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

import elastic_keras as ek
from tests.end_to_end.harness import elastic_keras, train, write_clicks

pytestmark = pytest.mark.end_to_end


@dataclasses.dataclass(frozen=True)
class Left:
    """What is left of a job.

    Args:
        folder: Holds the data.
        export: The export.
        evaluation: What training said.
        predictions: What the job directory predicted.
    """

    folder: pathlib.Path
    export: pathlib.Path
    evaluation: dict[str, float]
    predictions: dict[str, Any]


@pytest.fixture(scope="module", name="left")
def _left(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    write_clicks(folder / "train.csv", 400, seed=1)
    write_clicks(folder / "validation.csv", 201, seed=3)
    done = train(
        folder / "job",
        f"--training_data={folder}/train.csv",
        f"--validation_data={folder}/validation.csv",
        f"--output={folder}/out",
        "--formats=saved_model",
        "--num_ps=2",
        model="regularized",
    )
    done.succeeded()
    predictions = ek.predict(
        folder / "job",
        prediction_data=folder / "validation.csv",
        progress="none",
    )
    evaluation = done.result["evaluation"]
    shutil.rmtree(folder / "job")
    export = folder / "moved"
    (folder / "out").rename(export)
    return Left(folder, export, evaluation, predictions)


def _same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("workers", [1, 2])
def test_gives_what_training_said(left, workers, tmp_path):
    done = elastic_keras(
        "evaluate",
        f"--job_dir={left.export}",
        f"--num_workers={workers}",
        job_dir=tmp_path,
        folder=tmp_path,
    )
    assert done.code == 0, done.err
    (result,) = tmp_path.glob("runs/evaluate-*/result.json")
    said = json.loads(result.read_text())
    assert said["records_read"] == said["records_expected"] == 201
    assert said["evaluation"] == pytest.approx(left.evaluation, abs=1e-6)
    # The shards stay empty, and the export what it was.
    assert not any(shard["rows"] for shard in said["shards"])
    assert {path.name for path in left.export.iterdir()} == {
        "export.json",
        "saved_model",
    }


def test_predicts_as_the_job_did(left, tmp_path):
    output = tmp_path / "predictions.npz"
    done = elastic_keras(
        "predict",
        f"--restore_from={left.export}",
        f"--prediction_data={left.folder}/validation.csv",
        f"--output={output}",
        "--num_workers=2",
        "--records_per_task=16",
        job_dir=tmp_path,
        folder=tmp_path,
    )
    assert done.code == 0, done.err
    with np.load(output) as file:
        _same(dict(file), left.predictions)


def test_from_python(left, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = ek.evaluate(left.export, progress="none")
    assert found == pytest.approx(left.evaluation, abs=1e-6)
    data = left.folder / "validation.csv"
    _same(
        ek.predict(left.export, prediction_data=data, progress="none"),
        left.predictions,
    )


def test_another_module_reads_the_data(left, tmp_path):
    module = tmp_path / "serving.py"
    module.write_text(
        "import pathlib\n"
        "from regularized import *\n"
        "def custom_model():\n"
        "    raise AssertionError('the export is the model')\n"
        "class prediction_outputs_processor:\n"
        "    def process(self, predictions, worker_id):\n"
        "        with open('seen.txt', 'a') as file:\n"
        "            file.write(f'{len(predictions[\"click\"])}\\n')\n"
    )
    for name in ("clicks", "regularized"):
        source = pathlib.Path(__file__).parent / "zoo" / f"{name}.py"
        shutil.copy(source, tmp_path)
    done = elastic_keras(
        "predict",
        f"--job_dir={left.export}",
        f"--prediction_data={left.folder}/validation.csv",
        "--model_zoo=",
        f"--model_def={module}",
        "--ordered",
        job_dir=tmp_path,
        folder=tmp_path,
    )
    assert done.code == 0, done.err
    seen = (tmp_path / "seen.txt").read_text().split()
    assert sum(map(int, seen)) == 201


def test_features_that_do_not_fit_are_told(left, tmp_path):
    module = tmp_path / "other.py"
    module.write_text(
        "import regularized\n"
        "from regularized import *\n"
        "def dataset_fn(*arguments):\n"
        "    data = regularized.dataset_fn(*arguments)\n"
        "    return data.map(lambda features, labels: ("
        "{'x': features['x']}, labels))\n"
    )
    for name in ("clicks", "regularized"):
        source = pathlib.Path(__file__).parent / "zoo" / f"{name}.py"
        shutil.copy(source, tmp_path)
    done = elastic_keras(
        "evaluate",
        f"--job_dir={left.export}",
        "--model_zoo=",
        f"--model_def={module}",
        "--progress=none",
        job_dir=tmp_path,
        folder=tmp_path,
    )
    assert done.code == 2
    assert "The export was made for features of" in done.err
    assert len(done.err.strip().splitlines()) <= 2


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: (path / "export.json").write_text("{"), "No export.json"),
        (
            lambda path: (path / "export.json").write_text('{"formats": {}}'),
            "export with --formats=saved_model",
        ),
        (
            lambda path: (path / "saved_model/saved_model.pb").write_text("x"),
            "The export cannot be loaded",
        ),
        (
            lambda path: shutil.rmtree(path / "saved_model"),
            "The export cannot be loaded",
        ),
    ],
)
def test_a_broken_export_is_told(left, tmp_path, spoil, words):
    export = tmp_path / "export"
    shutil.copytree(left.export, export)
    spoil(export)
    done = elastic_keras(
        "evaluate",
        f"--job_dir={export}",
        "--progress=none",
        job_dir=tmp_path,
        folder=tmp_path,
    )
    assert done.code == 2
    assert words in done.err
    assert len(done.err.strip().splitlines()) <= 2
