"""The functions for scripts and notebooks, without starting a job."""

import json
import pathlib
import subprocess
import sys
import types

import pytest

import elastic_keras as ek
from elastic_keras import api


def _unused(tmp_path):
    """Returns a module that a job could start with."""
    path = tmp_path / "model.py"
    path.write_text("")
    return path


def test_unknown_option(tmp_path):
    with pytest.raises(ek.ConfigError, match="Received: num_worker=2"):
        ek.train(_unused(tmp_path), training_data="x.csv", num_worker=2)


def test_missing_module():
    with pytest.raises(ek.ConfigError, match="No such file"):
        ek.train("no/such/model.py", training_data="x.csv")


def test_no_data(tmp_path):
    with pytest.raises(ek.ConfigError, match="--training_data"):
        ek.train(_unused(tmp_path))


def test_module_without_a_file():
    with pytest.raises(ek.ConfigError, match="must come from a file"):
        ek.train(types.ModuleType("made_here"), training_data="x.csv")


def test_module_stands_for_its_file(tmp_path):
    module = types.ModuleType("gone")
    module.__file__ = str(tmp_path / "gone.py")
    with pytest.raises(ek.ConfigError, match=r"No such file.*gone\.py"):
        ek.train(module, training_data="x.csv")


@pytest.mark.parametrize(
    ("name", "given", "plain"),
    [
        ("training_data", ["a.csv", pathlib.Path("b.csv")], "a.csv,b.csv"),
        ("training_data", "a.csv,b.csv", "a.csv,b.csv"),
        ("job_dir", pathlib.Path("runs/x"), "runs/x"),
        (
            "model_params",
            {"dim": 8, "hidden": [64, 32], "name": "a"},
            "dim=8; hidden=[64, 32]; name='a'",
        ),
        ("num_workers", 2, 2),
    ],
)
def test_values_become_those_of_flags(name, given, plain):
    assert api.plain_value(name, given) == plain


def test_result_is_read(tmp_path):
    point = {"step": 3, "epoch": 1, "values": {"auc": 0.5}}
    (tmp_path / "result.json").write_text(
        json.dumps(
            {
                "status": "succeeded",
                "steps": 3,
                "evaluation": {"auc": 0.5},
                "evaluations": [point],
                "history": [point],
                "of_a_later_version": 1,
            }
        )
    )
    result = ek.Result.load(tmp_path)
    assert (result.status, result.steps) == ("succeeded", 3)
    assert result.evaluation == {"auc": 0.5}
    assert result.evaluations == result.history == [point]
    assert result.job_dir == str(tmp_path)


def test_no_result(tmp_path):
    with pytest.raises(ek.ConfigError, match="no result of a job"):
        ek.Result.load(tmp_path)


def test_public_names_are_there():
    assert dir(ek) == sorted(ek.__all__)
    for name in ek.__all__:
        assert getattr(ek, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'fit'"):
        ek.fit  # noqa: B018


def test_import_is_light():
    heavy = ["tensorflow", "keras", "grpc", "numba", "numpy", "rich"]
    code = (
        "import sys, elastic_keras, elastic_keras.config;"
        f"sys.exit(any(name in sys.modules for name in {heavy}))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0


def test_job_needs_no_tensorflow_in_this_process():
    code = (
        "import sys, elastic_keras as ek; ek.train;"
        "sys.exit('tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0


def test_a_comma_in_one_of_several_paths_is_said():
    with pytest.raises(ek.ConfigError, match=r"put \? in its place"):
        api.plain_value("training_data", ["a,b.csv", "c.csv"])
    assert api.plain_value("training_data", ["a,b.csv"]) == "a,b.csv"


def test_a_name_that_is_nearly_an_option():
    with pytest.raises(ek.ConfigError, match="Did you mean num_workers"):
        ek.train("m.py", num_worker=2)
