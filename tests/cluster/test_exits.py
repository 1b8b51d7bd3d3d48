"""Exit codes and last words of a process."""

import functools
import sys

import pytest

from elastic_keras.cluster import exits
from elastic_keras.config import ConfigError
from elastic_keras.zoo.errors import TRACEBACK_PREFIX


def _run(main):
    with pytest.raises(SystemExit) as caught:
        exits.run_main(main)
    return caught.value.code


def test_done():
    assert _run(lambda: None) == 0


def test_wrong_use_says_what_is_wrong(capsys):
    def main():
        raise ConfigError("No loss. Received: loss=None")

    assert _run(main) == 2
    assert capsys.readouterr().err == "error: No loss. Received: loss=None\n"


def test_crash_shows_its_traceback(capsys):
    def main():
        raise KeyError("ours")

    assert _run(main) == 70
    written = capsys.readouterr().err
    assert written.startswith(TRACEBACK_PREFIX)
    assert written.endswith("KeyError: 'ours'\n")


def test_exit_of_its_own_choice_passes_through():
    assert _run(functools.partial(sys.exit, 5)) == 5


def test_exit_that_the_users_code_calls_for_is_an_error(capsys):
    # This file is none of the package's.
    def main():
        raise SystemExit(5)

    assert _run(main) == 1
    written = capsys.readouterr().err
    assert written.startswith(TRACEBACK_PREFIX)
    assert written.rstrip().endswith("SystemExit: 5")
