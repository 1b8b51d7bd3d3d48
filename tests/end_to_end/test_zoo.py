"""A new module, checked and trained by the commands that are printed."""

import re
import shlex

import pytest

from tests.end_to_end.harness import elastic_keras

pytestmark = pytest.mark.end_to_end


def test_from_nothing_to_a_trained_model(tmp_path):
    def run(command):
        program, *arguments = shlex.split(command)
        assert program == "elastic_keras"
        return elastic_keras(
            *arguments, job_dir=tmp_path / "job", folder=tmp_path
        )

    made = run("elastic_keras zoo init clicks")
    assert made.code == 0, made.err
    check, train = re.findall(r"^elastic_keras .*$", made.out, re.MULTILINE)

    checked = run(check)
    assert (checked.code, checked.err) == (0, "")
    last = checked.out.splitlines()[-1]
    assert last.startswith("clicks.py is ready: elastic_keras train ")

    # As printed, but that the test knows where to look for the result.
    result = run(f"{train} --job_dir=job").succeeded()
    assert result["records_trained"] == 4000
    assert result["evaluation"]["auc"] > 0.7


def test_an_exception_of_the_module(tmp_path):
    (tmp_path / "mine.py").write_text("raise KeyError('mine')\n")
    done = elastic_keras(
        "zoo", "check", "mine.py", job_dir=tmp_path, folder=tmp_path
    )
    assert done.code == 1
    assert done.err.startswith("Traceback (most recent call last):\n")
    assert 'mine.py", line 1, in <module>' in done.err
    assert done.err.endswith("KeyError: 'mine'\n")
