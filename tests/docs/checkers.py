"""What is checked of commands that no test can run to their end."""

import pathlib

from elastic_keras import api, cli
from elastic_keras.cluster.launcher import JobOutcome
from tests.pages import ROOT

_JOBS = ("train", "evaluate", "predict", "export")


def check_sample(command, monkeypatch):
    """Checks a command that could run here: all but the job itself.

    Flags, module, data, snapshot and options are checked as they are when
    the command is given; the processes are not started.

    Args:
        command: The command's words.
        monkeypatch: pytest's; the current folder is the command's.
    """
    if command[0] == "tensorboard":
        _check_tensorboard(command)
        return
    assert command[0] == "elastic_keras", command
    assert command[1] in _JOBS, command
    started = []

    class StandIn:
        def run(self, config, *observers):
            started.append(config)
            return JobOutcome(config.cluster.job_dir, "failed", 1, "")

    monkeypatch.setattr(api, "LocalLauncher", StandIn)
    monkeypatch.setattr(api.exporting, "run", StandIn().run)
    monkeypatch.setattr(api, "read_result", lambda job_dir: {})
    assert cli.main(command[1:]) == 1
    assert started, command


def _check_tensorboard(command):
    from tensorboard import program

    board = program.TensorBoard()
    board.configure(command)
    assert pathlib.Path(board.flags.logdir).is_dir(), command


def check_installation(command):
    """Checks a command that prepares an environment.

    Args:
        command: The command's words.
    """
    if command[:3] == ["python", "-m", "venv"]:
        assert command[3:] == [".venv"]
    elif command[0] == "source":
        assert command[1:] == [".venv/bin/activate"]
    else:
        # As scripts/environment.sh does for these very tests.
        assert command == ["pip", "install", "-e", "."]
        assert (ROOT / "setup.py").exists()
