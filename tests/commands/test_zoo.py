"""`elastic_keras zoo` up to the point where TensorFlow is needed."""

import pathlib
import re
import subprocess
import sys

import pytest

from elastic_keras import cli


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The current folder, empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(capsys):
    """Runs the command; returns exit code, output and errors."""

    def run(*arguments):
        code = cli.main(["zoo", *arguments])
        written = capsys.readouterr()
        return code, written.out, written.err

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["chek"],
            "zoo does one of list, init, check. Did you mean check? "
            "Received: chek; see elastic_keras zoo --help",
        ),
        (
            ["list"],
            "No such folder: name your zoo with --model_zoo, or write a first "
            "module with elastic_keras zoo init NAME. "
            "Received: model_zoo='model_zoo'",
        ),
        (
            ["list", "--model_def=x"],
            "Unknown flag. Did you mean --model_zoo? Received: --model_def; "
            "see elastic_keras zoo list --help",
        ),
        (
            ["init"],
            "Name the new module, e.g. elastic_keras zoo init clicks. "
            "Received: name=''",
        ),
        (
            ["init", "a", "b"],
            "Flags look like --name=value. Received: 'b'",
        ),
        (
            ["init", "a", "--template=b"],
            "--template takes one of ranking. Received: template='b'",
        ),
        (
            ["check"],
            "Name a module with --model_def, e.g. --model_def=criteo.deepfm. "
            "Received: model_def=''",
        ),
        (
            ["check", "a", "--model_def=b"],
            "Flags look like --name=value. Received: 'a'",
        ),
        (
            ["check", "nothing.py", "--csv_header"],
            "No such file. Received: model_def='nothing.py'",
        ),
        (
            ["check", "--minibatch_size=0", "nothing.py"],
            "--minibatch_size takes a value of at least 1. "
            "Received: minibatch_size=0",
        ),
        (
            ["check", "nothing.py", "--num_ps=2"],
            "Unknown flag. Received: --num_ps; "
            "see elastic_keras zoo check --help",
        ),
    ],
)
def test_wrong_use(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err == f"elastic_keras: error: {message}\n"


def test_data_that_are_not_there(run):
    pathlib.Path("mine.py").write_text("")
    code, _, err = run("check", "mine.py", "--prediction_data=new.csv")
    assert code == 2
    assert "No such file. Received: prediction_data='new.csv'" in err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["check", "--help"], ["init", "a", "-h"]]
)
def test_help(run, arguments):
    code, out, err = run(*arguments)
    assert (code, err) == (0, "")
    for text in ("zoo list ", "zoo init NAME", "zoo check MODULE"):
        assert text in out
    for name in ("--training_data=", "--[no]csv_header", "--model_params="):
        assert name in out
    assert "num_workers" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert not pathlib.Path("a.py").exists()


def test_help_of_the_command_itself(run, capsys):
    _, out, _ = run("--help")
    assert cli.main(["help", "zoo"]) == 0
    assert capsys.readouterr().out == out
    assert run()[::2] == (2, out)


def test_init_and_list(run):
    code, out, err = run("init", "shop/clicks.py")
    assert (code, err) == (0, "")
    check, train = re.findall(r"^elastic_keras .*$", out, re.MULTILINE)
    assert check == (
        "elastic_keras zoo check shop/clicks.py "
        "--training_data=shop/clicks.csv --csv_header"
    )
    assert train.startswith("elastic_keras train --model_def=shop/clicks.py ")
    pathlib.Path("shop/broken.py").write_text("custom_model = (\n")
    code, out, err = run("list", "shop")
    assert (code, err) == (0, "")
    assert out.startswith("broken\n    broken: line 1: '(' was never closed\n")
    assert "\nclicks\n    Will this user click" in out
    assert out.endswith("--model_zoo=shop --model_def=NAME ... trains one.\n")
    assert run("list", "--model_zoo=shop") == (0, out, "")


def test_list_and_init_without_tensorflow():
    code = (
        "import sys; from elastic_keras import cli; "
        "assert cli.main(['zoo', 'init', 'a']) == 0; "
        "assert cli.main(['zoo', 'list', '.']) == 0; "
        "sys.exit('tensorflow' in sys.modules or 'grpc' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0
