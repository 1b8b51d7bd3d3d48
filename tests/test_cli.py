"""The command line without starting a job."""

import re
import subprocess
import sys

import pytest

from elastic_keras import cli
from elastic_keras.config import all_options

_HELP = "see elastic_keras train --help"


def _run(capsys, *arguments):
    code = cli.main(arguments)
    written = capsys.readouterr()
    return code, written.out, written.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["trian"],
            "Unknown command. Did you mean train? Received: trian; "
            "see elastic_keras help",
        ),
        (
            ["train", "--num_worker=2"],
            "Unknown flag. Did you mean --num_workers? "
            f"Received: --num_worker; {_HELP}",
        ),
        (
            ["train", "--max-staleness=2"],
            "Unknown flag. Did you mean --max_staleness? "
            f"Received: --max-staleness; {_HELP}",
        ),
        (
            ["train", "--no-shared_memory"],
            "Unknown flag. Did you mean --noshared_memory? "
            f"Received: --no-shared_memory; {_HELP}",
        ),
        (
            ["train", "--no_csv-header"],
            "Unknown flag. Did you mean --nocsv_header? "
            f"Received: --no_csv-header; {_HELP}",
        ),
        (
            ["train", "--prediction_data=new.csv"],
            "Unknown flag. Did you mean --validation_data? "
            f"Received: --prediction_data; {_HELP}",
        ),
        (
            ["train", "--num_workers=two"],
            "--num_workers takes a whole number. Received: num_workers='two'",
        ),
        (
            ["train", "--csv_header=perhaps"],
            "--csv_header takes true or false. Received: csv_header='perhaps'",
        ),
        (
            ["train", "--num_workers=0"],
            "--num_workers takes a value of at least 1. "
            "Received: num_workers=0",
        ),
        (
            ["train", "--staleness_policy=hope"],
            "--staleness_policy takes one of wait, recompute, dampen, "
            "unbounded. Received: staleness_policy='hope'",
        ),
        (
            ["train", "model.py"],
            "Flags look like --name=value. Received: 'model.py'",
        ),
        (["train", "--seed"], "Missing value for flag --seed"),
        (
            ["train", "--flagfile=/no/such/file"],
            "Unable to open flagfile: [Errno 2] No such file or directory: "
            "'/no/such/file'",
        ),
        (
            ["train"],
            "Name a module with --model_def, e.g. --model_def=criteo.deepfm. "
            "Received: model_def=''",
        ),
    ],
)
def test_wrong_use(capsys, arguments, message):
    code, out, err = _run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err == f"elastic_keras: error: {message}\n"


def test_training_without_data(capsys, tmp_path):
    (tmp_path / "model.py").write_text("")
    code, _, err = _run(capsys, "train", f"--model_def={tmp_path}/model.py")
    assert code == 2
    assert "name files with --training_data" in err


@pytest.mark.parametrize(
    "arguments", [["train", "--help"], ["help", "train"], ["train", "-h"]]
)
def test_help_of_train_names_every_option(capsys, arguments):
    code, out, _ = _run(capsys, *arguments)
    assert code == 0
    for _, field in all_options("train"):
        assert f"{field.name}" in out
        assert field.metadata["help"].split()[0] in out
    assert "prediction_data" not in out
    assert "--[no]csv_header" in out
    assert "--num_epochs=N\n      Passes over" in out
    assert "--heartbeat_secs=SECONDS" in out
    assert "(default: 2097152 bytes)" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def test_help_of_export_names_its_own_options_only(capsys):
    code, out, _ = _run(capsys, "export", "--help")
    assert code == 0
    named = set(re.findall(r"^  --(?:\[no\])?(\w+)", out, re.MULTILINE))
    assert named == {
        "model_zoo",
        "model_def",
        "model_params",
        "job_dir",
        "restore_from",
        "output",
        "formats",
        "keras_limit_mb",
    }


@pytest.mark.parametrize("arguments", [["help"], ["--help"], ["-h"]])
def test_overview(capsys, arguments):
    code, out, _ = _run(capsys, *arguments)
    assert code == 0
    for name in cli.COMMANDS:
        assert f"  {name} " in out


def test_no_command_shows_the_overview(capsys):
    code, out, err = _run(capsys)
    assert (code, out) == (2, "")
    assert "elastic_keras COMMAND" in err


def test_version(capsys):
    code, out, _ = _run(capsys, "version")
    assert code == 0
    assert out.startswith("elastic_keras 0.")
    assert "tensorflow 2." in out


def test_flag_file(capsys, tmp_path):
    flags = tmp_path / "flags.txt"
    flags.write_text("--num_workers=3\n--num_workers=-1\n")
    code, _, err = _run(capsys, "train", f"--flagfile={flags}")
    assert code == 2
    assert "Received: num_workers=-1" in err


def test_answers_without_tensorflow():
    code = (
        "import sys; from elastic_keras import cli; cli.main(['version']);"
        "sys.exit('tensorflow' in sys.modules or 'grpc' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0
