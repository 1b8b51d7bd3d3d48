"""A process's end, as a person gets to read it."""

import signal
import sys

import psutil
import pytest

from elastic_keras.cluster.process import Process, ending, last_words


def test_message_of_wrong_use_without_what_came_before():
    text = "error: an old one\nnoise\nerror: No loss.\nReceived: loss=None\n"
    assert last_words(text, 2) == "No loss.\nReceived: loss=None"


def test_traceback_of_the_user():
    text = "noise\nTraceback (most recent call last):\n  line\nKeyError: 'a'\n"
    assert last_words(text, 1) == (
        "Traceback (most recent call last):\n  line\nKeyError: 'a'"
    )


@pytest.mark.parametrize("exit_code", [1, 2, 70, -9, None])
def test_last_lines_where_nothing_better_is_there(exit_code):
    text = "\n".join(f"line {number}" for number in range(100))
    found = last_words(text, exit_code).splitlines()
    assert found[-1] == "line 99"
    assert len(found) == 30


def test_ending():
    assert ending(70) == "ended with exit code 70"
    assert ending(-9) == "was killed by SIGKILL"
    assert ending(-1000) == "was killed by signal 1000"


def test_restart_shows_its_own_last_words_only(tmp_path):
    log = tmp_path / "worker-3.log"
    words = []
    for code in ("print('error: first')", "print('second')"):
        process = Process(
            "worker",
            3,
            [sys.executable, "-c", f"{code}; raise SystemExit(2)"],
            {},
            log,
        )
        assert process.wait() == 2
        assert not process.alive
        words.append(process.last_words())
        process.close()
    assert process.name == "worker-3"
    assert words == ["first", "second"]
    assert log.read_text().splitlines() == ["error: first", "second"]


def test_signal_reaches_what_the_process_started(tmp_path):
    code = (
        "import subprocess, sys;"
        "subprocess.Popen([sys.executable, '-c', 'input()'],"
        "stdin=subprocess.PIPE).wait()"
    )
    process = Process(
        "ps", 0, [sys.executable, "-c", code], {}, tmp_path / "ps-0.log"
    )
    parent = psutil.Process(process.pid)
    while not parent.children():
        assert process.alive
    [child] = parent.children()
    process.signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    child.wait(timeout=60)
    process.signal(signal.SIGKILL)
    process.close()
