"""Exit codes and last words of a process."""

import pytest

from elastic_keras.cluster import exits
from elastic_keras.config import ConfigError


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
    assert written.startswith(exits.TRACEBACK_PREFIX)
    assert written.endswith("KeyError: 'ours'\n")


def test_exit_of_its_own_choice_passes_through():
    def main():
        raise SystemExit(5)

    assert _run(main) == 5
