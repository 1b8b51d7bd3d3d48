"""`elastic_keras status` without a job that runs."""

import json

import pytest
from rich.console import Console

from elastic_keras import cli
from elastic_keras.cluster.job_directory import JobDirectory
from elastic_keras.commands import status
from elastic_keras.config import JobConfig
from elastic_keras.monitoring import job_view
from tests.monitoring.stand_ins import describe


@pytest.fixture
def run(capsys):
    """Runs the command; returns exit code, output and errors."""

    def run(*arguments):
        code = cli.main(["status", *arguments])
        written = capsys.readouterr()
        return code, written.out, written.err

    return run


@pytest.fixture
def job_dir(tmp_path):
    """The directory of a job that has failed."""
    directory = JobDirectory(str(tmp_path))
    directory.write_config(JobConfig.from_options(training_data="x"))
    directory.write_result(
        {"status": "failed", "steps": 7, "error": "Traceback: theirs"}
    )
    return str(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            "Name a job directory, e.g. elastic_keras status runs/deepfm. "
            "Received: job_dir=''",
        ),
        (["a", "b"], "Flags look like --name=value. Received: 'b'"),
        (
            ["a", "--jsn"],
            "Unknown flag. Did you mean --json? Received: --jsn; "
            "see elastic_keras status --help",
        ),
    ],
)
def test_wrong_use(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err == f"elastic_keras: error: {message}\n"


def test_no_job(run, tmp_path):
    code, _, err = run(str(tmp_path))
    assert code == 2
    assert "config.json" in err


def test_a_job_that_has_ended(run, job_dir):
    for arguments in ([job_dir], [f"--job_dir={job_dir}"], [job_dir, "--once"]):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        text = " ".join(out.split())
        assert "failed not running" in text
        assert "Traceback: theirs" in text


def test_json(run, job_dir):
    code, out, err = run(job_dir, "--json")
    assert (code, err) == (0, "")
    raw = json.loads(out)
    assert (raw["running"], raw["phase"], raw["steps"]) == (False, "failed", 7)
    assert run("--json", job_dir) == (0, out, "")


def test_help(run, capsys):
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    for text in ("JOB_DIR", "--[no]json", "--[no]once"):
        assert text in out
    assert max(map(len, out.splitlines())) <= 80
    assert cli.main(["help", "status"]) == 0
    assert capsys.readouterr().out == out


def test_a_job_is_followed_to_its_end():
    phases = ["starting", "training", "succeeded"]
    views = [job_view.of_description("a", describe(each)) for each in phases]
    remaining = iter(views)
    pauses = []
    console = Console(force_terminal=True, width=80)
    with console.capture() as capture:
        status.follow(lambda: next(remaining), console, pauses.append)
    text = capture.get()
    assert all(phase in text for phase in phases)
    assert len(pauses) == 2
    assert next(remaining, None) is None


def test_an_ended_job_is_shown_once():
    view = job_view.of_result("a", {"status": "stopped"})
    console = Console(force_terminal=True, width=80)
    with console.capture() as capture:
        status.follow(lambda: view, console, pytest.fail)
    assert "stopped" in capture.get()
