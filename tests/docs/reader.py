"""Follows pages as a reader does: block after block, in one folder."""

import contextlib
import dataclasses
import doctest
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

from tests.docs.checkers import check_installation, check_sample
from tests.pages import ROOT

_PATIENCE = 240.0
_NUMBER = r"[-\d.,e+]+"
# What Sphinx makes something of.
# Its data are not ours: tests/model_zoo runs it where they are.
_ELSEWHERE = "docs/neighbours.md"
_DIRECTIVES = ("{toctree}", "{eval-rst}", "{flag-tables}")
# Ports that pages name; another program may have them here.
_PORTS = ("8501", "9100")


@dataclasses.dataclass
class Reader:
    """Someone who does what pages say.

    Args:
        folder: Where.
    """

    folder: pathlib.Path

    def __post_init__(self):
        bin_folder = self.folder / ".bin"
        bin_folder.mkdir()
        # Whatever is installed, the commands are those of this checkout.
        for name, module in (
            ("elastic_keras", "-m elastic_keras.cli"),
            ("python", ""),
        ):
            path = bin_folder / name
            path.write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n')
            path.chmod(0o755)
        # What stands in a checkout beside one's own files.
        for name in ("scripts", "model_zoo"):
            (self.folder / name).symlink_to(ROOT / name)
        self._ports = {port: _free_port() for port in _PORTS}
        self._environment = {
            **os.environ,
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }

    def follow(self, blocks, monkeypatch):
        """Does what the blocks of a page say.

        Args:
            blocks: The blocks.
            monkeypatch: pytest's.
        """
        monkeypatch.chdir(self.folder)
        blocks = [self._with_free_ports(block) for block in blocks]
        names, said = {"__name__": "page"}, ""
        with contextlib.ExitStack() as servers:
            for block in blocks:
                kind = block.words[0] if block.words else ""
                if block.file:
                    (self.folder / block.file).write_text(block.text)
                elif block.language == "python":
                    exec(compile(block.text, block.place, "exec"), names)
                elif block.language == "pycon":
                    run_examples(block.text, names, block.place)
                elif block.language == "text":
                    _check_output(block, said)
                elif block.language in _DIRECTIVES:
                    continue
                elif block.language != "shell":
                    raise AssertionError(f"Nothing covers {block}")
                elif kind == "elsewhere":
                    assert block.place.startswith(_ELSEWHERE), block
                elif kind == "install":
                    for command in block.commands:
                        check_installation(command)
                elif kind == "sample":
                    for command in block.commands:
                        with monkeypatch.context() as patched:
                            check_sample(command, patched)
                elif kind == "server":
                    servers.enter_context(self._serving(block))
                else:
                    said = self._run(block)

    def _with_free_ports(self, block):
        text = block.text
        for port, free in self._ports.items():
            text = text.replace(port, free)
        return dataclasses.replace(block, text=text)

    def _run(self, block):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
        said = f"{done.stdout}\n{done.stderr}"
        assert done.returncode == block.exit_code, f"{block.place}\n{said}"
        return said

    @contextlib.contextmanager
    def _serving(self, block):
        (command,) = block.commands
        port = int(re.search(r"--port=(\d+)", block.text)[1])
        with subprocess.Popen(command, env=self._environment) as process:
            try:
                _await_port(port, process)
                yield
            finally:
                process.send_signal(signal.SIGTERM)


def run_examples(text, names, place):
    """Runs the examples of a text as doctests.

    Args:
        text: Has `>>>` in it.
        names: What the examples see and change.
        place: Where the text stands.
    """
    # A copy would be cleared at the end, and the next block needs it.
    test = doctest.DocTestParser().get_doctest(text, {}, place, place, 0)
    test.globs = names
    told = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    runner.run(test, out=told.append, clear_globs=False)
    assert runner.tries, place
    assert not runner.failures, "".join(told)


def _check_output(block, said):
    """Checks that each line of a block was said, whatever the numbers."""
    plain = " ".join(said.split())
    for line in block.text.splitlines():
        pattern = re.escape(" ".join(line.split())).replace("\\ ", " ")
        pattern = pattern.replace(r"\.\.\.", ".*")
        pattern = re.sub(r"\d(\\?[\d.,])*", lambda _: _NUMBER, pattern)
        assert re.search(pattern, plain), f"{block.place}: {line}\n{said}"


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def _await_port(port, process):
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        assert process.poll() is None, "The server has ended."
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        # Nobody tells when a port opens.
        time.sleep(0.05)
    raise AssertionError(f"Nothing listens at port {port}.")
