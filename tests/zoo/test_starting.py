"""New modules: where they are written, and that they keep the contract."""

import os
import pathlib
import subprocess
import sys

import pytest

from elastic_keras.config import ConfigError, ModelOptions
from elastic_keras.zoo.listing import find_modules
from elastic_keras.zoo.module import load
from elastic_keras.zoo.starting import TEMPLATES, start


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("clicks", "clicks.py"),
        ("clicks.py", "clicks.py"),
        ("a/b/clicks.py", "a/b/clicks.py"),
        ("a-b/clicks", "a-b/clicks.py"),
        ("a.clicks", "a/clicks.py"),
    ],
)
def test_where_files_are_written(folder, name, module):
    made = start(name)
    assert str(made.module) == module
    stem = made.module.stem
    written = {path.name for path in (folder / module).parent.iterdir()}
    assert written == {
        f"{stem}{end}" for end in (".py", "_data.py", ".csv", "_validation.csv")
    }
    assert "NAME" not in made.module.read_text() + made.maker.read_text()
    assert f"--training_data={stem}.csv" in made.module.read_text()


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_module_keeps_the_contract(folder, template):
    start("mine", template)
    (entry,) = find_modules(".")
    assert (entry.name, entry.error) == ("mine", "")
    assert entry.summary.endswith(".")
    zoo = load(ModelOptions(model_def="mine.py", model_params="dim=2"))
    assert zoo.custom_model().built
    assert zoo.optimizer()
    assert zoo.eval_metrics_fn()


def test_the_maker_makes_the_same_data_again():
    made = start("mine")
    training = made.training.read_text()
    assert training.count("\n") == 4001
    validation = made.validation.read_text()
    assert not set(training.split()[1:]) & set(validation.split()[1:])
    made.training.unlink()
    made.validation.unlink()
    subprocess.run([sys.executable, made.maker], check=True)
    assert made.training.read_text() == training
    assert made.validation.read_text() == validation


@pytest.mark.parametrize("there", ["a.py", "a_data.py", "a.csv"])
def test_nothing_is_overwritten(folder, there):
    (folder / there).write_text("mine")
    # To remove it is no advice: it may be data.
    with pytest.raises(
        ConfigError, match=f"{there} is there already; take another name. Rec"
    ):
        start("a")
    assert [path.name for path in folder.iterdir()] == [there]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "A module's name is made of letters"),
        ("two-words", "A module's name is made of letters"),
        ("class", "A module's name is made of letters"),
        ("..", "A module's name is made of letters"),
        ("keras", "Python has a module 'keras' already"),
        ("zoo/json.py", "Python has a module 'json' already"),
        ("data.csv/a", r"Cannot write data.csv: .*\. Received: 'data.csv/a'"),
    ],
)
def test_names_that_cannot_be(folder, name, message):
    (folder / "data.csv").write_text("")
    with pytest.raises(ConfigError, match=message):
        start(name)
    assert os.listdir(folder) == ["data.csv"]


def test_an_unknown_template():
    with pytest.raises(ConfigError, match=r"one of ranking\. Received: templa"):
        start("a", "poem")
    assert not pathlib.Path("a.py").exists()
