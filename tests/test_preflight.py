"""Wrong use that is told before anything is started or written."""

import os
import socket
import subprocess
import sys

import pytest

from elastic_keras import cli, preflight
from elastic_keras.config import JobConfig


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with a module and data."""
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "reader.py").write_text("custom_data_reader = None\n")
    (tmp_path / "good.csv").write_text("1,2\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "good.txt").write_text("x\n")
    (tmp_path / "packed.csv.gz").write_text("?")
    (tmp_path / "inside").mkdir()
    (tmp_path / "gone.csv").symlink_to("nowhere.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_taken_port_for_metrics(folder, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = f"Port {port} cannot be used: Address already in use"
        _refused(folder, capsys, words, metrics_port=port)


@pytest.mark.parametrize("name", ["training_data", "validation_data"])
@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("none.csv", "No such file."),
        ("none_*.csv", "No such file."),
        ("good.csv,none.csv", "No such file."),
        ("gone.csv", "No such file."),
        ("inside", "A folder is not data; name its files, e.g. 'inside/*'."),
        ("pipe.csv", "Data must be files"),
        ("good.csv,good.csv", "Files named twice."),
        ("packed.csv.gz", "unpack them first."),
        ("good.csv,good.txt", "All files of a flag must have one format."),
        ("empty.csv", "The data hold no records."),
    ],
)
def test_data(folder, capsys, name, data, words):
    _refused(folder, capsys, words, **{name: data})


def _refused(folder, capsys, words, **options):
    """Asserts how a job ends that must not start."""
    values = {"model_def": "mine.py", "training_data": "good.csv", **options}
    before = sorted(folder.rglob("*"))
    given = [f"--{name}={value}" for name, value in values.items()]
    assert cli.main(["train", *given]) == 2
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith("elastic_keras: error: ")
    assert len(written.err.splitlines()) == 1
    assert words in written.err
    assert "Received: " in written.err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("name", ["training_data", "validation_data"])
def test_a_file_that_may_not_be_read(folder, capsys, monkeypatch, name):
    (folder / "secret.csv").write_text("1,2\n")

    def refuse(path, *args, **kwargs):
        if path == "secret.csv":
            raise PermissionError(13, "Permission denied", path)
        return open(path, *args, **kwargs)

    # Root may read everything, whatever a file's mode.
    monkeypatch.setattr("elastic_keras.preflight.open", refuse, raising=False)
    words = f"Permission denied. Received: {name}='secret.csv'"
    _refused(folder, capsys, words, **{name: "secret.csv"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model_def": "nothing"}, "No such module"),
        ({"model_def": "nothing.py"}, "No such file"),
        ({"model_zoo": "nowhere"}, "No such folder"),
        ({"model_params": "dim="}, "Python literals by name"),
        ({"data_reader_params": "table="}, "Python literals by name"),
        ({"prediction_data": "good.csv"}, "Unknown flag"),
        ({"evaluation_steps": 5}, "--evaluation_steps needs"),
        (
            {"early_stopping_patience": 1},
            "--early_stopping_patience needs --early_stopping_metric",
        ),
        (
            {"early_stopping_metric": "auc"},
            "--early_stopping_metric needs --early_stopping_patience",
        ),
        (
            {"early_stopping_patience": 1, "early_stopping_metric": "auc"},
            "--early_stopping_patience needs --validation_data",
        ),
        ({"port": 5000}, "--port needs --transport=tcp"),
        ({"data_format": "text", "csv_header": "true"}, "--csv_header goes"),
        ({"profile_steps": "9,3"}, "the first and the last step"),
        ({"projector_names": "a=none.tsv"}, "--projector_names names no file"),
    ],
)
def test_options(folder, capsys, options, words):
    _refused(folder, capsys, words, **options)


def test_a_custom_reader_knows_what_the_flags_mean(folder):
    code = (
        "import sys; from elastic_keras import preflight;"
        "from elastic_keras.config import JobConfig;"
        "preflight.check(JobConfig.from_options("
        "model_def='reader.py', training_data='a table'));"
        "preflight.check(JobConfig.from_options("
        "model_def='mine.py', training_data='good.csv'));"
        "sys.exit('tensorflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0


def _warnings(**options):
    config = JobConfig.from_options(
        model_def="mine.py", training_data="good.csv", **options
    )
    preflight.check(config)
    return preflight.warnings(config)


def test_a_module_with_a_name_that_does_nothing(folder):
    assert _warnings() == []
    path = folder / "mine.py"
    path.write_text("def eval_metrics():\n    return {}\n")
    (told,) = _warnings()
    assert told == (
        "The module defines 'eval_metrics', which nothing calls. Is "
        f"'eval_metrics_fn' meant? Received: {path}"
    )
    path.write_text("from clicks import *\ndef eval_metrics(): pass\n")
    assert _warnings() == []


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": 2},
        {"max_staleness": 1},
        {"staleness_policy": "unbounded"},
    ],
)
def test_deterministic_where_it_cannot_be(folder, options):
    assert _warnings(**options) == []
    assert _warnings(deterministic=True) == []
    (told,) = _warnings(deterministic=True, **options)
    (name,) = options
    assert told.startswith("--deterministic gives the same bits")
    assert f"{name}={options[name]!r}" in told
