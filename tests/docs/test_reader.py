"""A reader of pages notices what would not work."""

import pytest

from tests.docs.reader import Reader
from tests.pages import Block


def _shell(text, *words):
    return Block("page.md:1", "shell", words, text)


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param([_shell("false\n")], id="fails"),
        pytest.param([_shell("true\n", "exit=2")], id="succeeds"),
        pytest.param(
            [_shell("echo 1 of 3\n"), Block("", "text", (), "2 and 3\n")],
            id="other output",
        ),
        pytest.param([Block("", "bash", (), "true\n")], id="unknown language"),
        pytest.param([_shell("make x\n", "sample")], id="unknown program"),
        pytest.param(
            [_shell("pip install x\n", "install")], id="other package"
        ),
        pytest.param(
            [_shell("elastic_keras train --steps=1\n", "sample")],
            id="unknown flag",
        ),
        pytest.param(
            [_shell("elastic_keras train --model_def=no.py\n", "sample")],
            id="no such file",
        ),
        pytest.param([Block("", "pycon", (), ">>> 1\n2\n")], id="example"),
    ],
)
def test_what_does_not_work_is_noticed(blocks, tmp_path, monkeypatch):
    with pytest.raises(AssertionError):
        Reader(tmp_path).follow(blocks, monkeypatch)


def test_numbers_may_differ(tmp_path, monkeypatch):
    blocks = [
        Block("", "text", ("file=a.txt",), "12 steps in 3.4 s\n"),
        _shell("cat a.txt\n"),
        Block("", "text", (), "7 steps in 10.1 s\n"),
    ]
    Reader(tmp_path).follow(blocks, monkeypatch)
