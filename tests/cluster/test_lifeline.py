"""A process ends when the other end of its stdin is closed."""

import os
import signal
import subprocess
import sys

import pytest

_CODE = (
    "import sys, threading; from elastic_keras.cluster import lifeline;"
    "lifeline.watch_parent();"
    "names = [each.name for each in threading.enumerate()];"
    "print('lifeline' in names, flush=True);"
)


def _start(code, asked):
    return subprocess.Popen(
        [sys.executable, "-c", _CODE + code],
        env={**os.environ, "EK_LIFELINE": asked},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("code", "number"),
    [
        ("threading.Event().wait()", signal.SIGTERM),
        (
            "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
            "print('deaf', flush=True); threading.Event().wait()",
            signal.SIGKILL,
        ),
    ],
    ids=["gentle", "deaf"],
)
def test_ends_with_its_lifeline(code, number):
    process = _start(code, "1")
    assert process.stdout.readline() == "True\n"
    if "deaf" in code:
        assert process.stdout.readline() == "deaf\n"
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(timeout=60) == -number
    process.stdout.close()


def test_does_nothing_where_nobody_asked():
    process = _start("sys.stdin.read()", "")
    out, _ = process.communicate("")
    assert (out, process.returncode) == ("False\n", 0)
