"""The README's module and its calls, run as they stand there."""

import json
import os
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.end_to_end.harness import elastic_keras
from tests.pages import README, known_flags, read_blocks

pytestmark = pytest.mark.end_to_end


def _blocks(language):
    """Returns the texts of the README's code blocks in a language."""
    return [block.text for block in read_blocks(README, language)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the README's module and data for it."""
    made = tmp_path_factory.mktemp("readme")
    maker, module = _blocks("python")[:2]
    assert len(module.splitlines()) < 40
    (made / "ratings.py").write_text(module)
    subprocess.run([sys.executable, "-c", maker], cwd=made, check=True)
    assert re.fullmatch(r"\d+,\d+,\d\.\d", _first_line(made / "new.csv"))
    return made


def _first_line(path):
    return path.read_text().splitlines()[0]


@pytest.fixture(scope="module", name="trained")
def _trained(folder):
    """The README's job."""
    (command,) = _commands("elastic_keras train")
    return elastic_keras(
        *command[1:], job_dir=folder / "runs" / "ratings", folder=folder
    )


def _commands(beginning):
    """Returns the commands of the shell block that begins so."""
    (block,) = (
        block
        for block in read_blocks(README, "")
        if block.text.startswith(beginning)
    )
    return block.commands


def test_shell_command(trained):
    done = trained
    result = done.succeeded()
    assert result["records_trained"] == 9000
    assert result["evaluation"]["mae"] < 1.0


def test_commands_on_a_trained_model(folder, trained):
    trained.succeeded()
    evaluate, predict = _commands("elastic_keras evaluate")
    # Nothing is said of data: it takes the job's own.
    done = elastic_keras(*evaluate[1:], job_dir=trained.job_dir, folder=folder)
    assert done.code == 0, done.err
    found = float(re.search(r"mae ([\d.]+)", done.out)[1])
    trained_mae = trained.result["evaluation"]["mae"]
    assert found == pytest.approx(trained_mae, rel=1e-4)
    done = elastic_keras(*predict[1:], job_dir=trained.job_dir, folder=folder)
    assert done.code == 0, done.err
    assert "predictions: predictions.npz (1,000 examples)" in done.out
    (block,) = (text for text in _blocks("python") if "ek.predict" in text)
    code = f"{block}\nprint(sorted(metrics), stars.shape)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "['loss', 'mae'] (1000, 1)" in done.stdout, done.stderr


def test_a_script_without_a_module():
    (block,) = (text for text in _blocks("python") if "PSModel" in text)
    ids = keras.Input((), dtype="int64")
    rows = keras.layers.Embedding(2**17, 4)(ids)
    output = keras.layers.Dense(1, activation="sigmoid")(rows)
    arrays = np.arange(100) % 7, np.arange(100) % 2
    names = {
        "model": keras.Model(ids, output),
        "dataset": tf.data.Dataset.from_tensor_slices(arrays).batch(10),
    }
    exec(block, names)
    assert len(names["history"].history["val_accuracy"]) == 2
    assert type(names["model"].layers[1]) is keras.layers.Embedding


def test_python_call(folder):
    code = (
        f"{_blocks('python')[2]}\n"
        "import json; json.dump([result.status, result.records_trained,"
        "list(result.evaluation)], open('told.json', 'w'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    status, records, evaluation = json.loads((folder / "told.json").read_text())
    assert (status, records) == ("succeeded", 9000)
    assert "mae" in evaluation


def test_export(folder, trained):
    trained.succeeded()
    (command,) = _commands("elastic_keras export")
    done = elastic_keras(*command[1:], job_dir=trained.job_dir, folder=folder)
    assert done.code == 0, done.err
    (code,) = (text for text in _blocks("python") if "saved_model" in text)
    served = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "shape=(1, 1), dtype=float32" in served.stdout, served.stderr


def test_commands_that_go_on(folder, trained):
    trained.succeeded()
    scale, again, listed, more = (
        elastic_keras(
            *command[1:], job_dir=folder / "runs" / "more", folder=folder
        )
        for command in _commands("elastic_keras scale")
    )
    assert scale.code == 2
    assert "The job is not running" in scale.err
    assert again.code == 0
    assert "This training is finished" in again.err
    assert "3 shards" not in listed.out
    assert "step-000000" in listed.out
    result = more.succeeded()
    # One epoch more than the first job's.
    assert result["records_trained"] == 18000
    assert [point["epoch"] for point in result["history"]] == [1, 2]
    assert len(result["shards"]) == 3


def test_commands_that_look(folder, trained):
    trained.succeeded()
    found = []
    for command in _commands("elastic_keras status"):
        done = elastic_keras(
            *command[1:], job_dir=trained.job_dir, folder=folder
        )
        assert done.code == 0, done.err
        found.append(" ".join(done.out.split()))
    status, raw, tables, row = found
    assert "succeeded not running" in status
    assert json.loads(raw)["records_done"] == 9000
    assert "table movies: 500 rows of 16" in tables
    assert "id 17 of table movies" in row
    assert "neighbours" in row


def test_no_flag_is_made_up():
    named = set(re.findall(r"--([a-z_]+)", README.read_text()))
    assert named - known_flags() <= {"help"}
