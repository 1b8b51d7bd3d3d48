"""The picture of `elastic_keras status` in docs/; see screenshots.py."""

import io
import os
import pathlib
import re
import subprocess
import sys
import time

import chromium
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

_WIDTH = 92
_PATIENCE = 300.0
_WINDOW = (1200, 900)
# What a window holds beside the page.
_FRAME = 200
_PAGE = """
<html><head><meta charset="utf-8"><style>
body {{ background: {background}; color: {foreground}; margin: 0 }}
pre {{ font: 14px/1.3 "DejaVu Sans Mono", monospace; padding: 14px;
       display: inline-block; margin: 0 }}
</style></head><body><pre>{code}</pre></body></html>
"""
# What a job in full swing must tell, and tells only then.
_TOLD = (
    r"^runs/\S+  training  .+ left$",
    r"progress +epoch \d+/\d+, [1-9][\d,]*/[\d,]+ records, [1-9][\d,]* steps",
    r"speed +[1-9][\d,]* examples/s",
    r"training +loss 0\.\d+, auc 0\.\d+",
    r"evaluation +loss 0\.\d+, auc 0\.\d+",
    r"staleness +\d+\.\d versions on average, [1-9]",
    # Workers: steps, examples/s, and milliseconds of a step, pull and push.
    r"^0 +[1-9][\d,]* +[1-9][\d,]* +[\d.]+ +[\d.]+ +[\d.]+",
    r"^1 +[1-9][\d,]* +[1-9][\d,]* +[\d.]+ +[\d.]+ +[\d.]+",
    # Shards: rows, memory, version, and what they hand out and take.
    r"^0 +[1-9][\d,]* +[\d.]+ \wB +[1-9][\d,]* +[1-9][\d.]* \wB/s +[1-9]",
    r"^1 +[1-9][\d,]* +[\d.]+ \wB +[1-9][\d,]* +[1-9][\d.]* \wB/s +[1-9]",
    r"slowest$",
    r"hottest$",
)


def unsaid(text: str) -> list[str]:
    """Returns the patterns of real values that a status lacks.

    Args:
        text: What `elastic_keras status` printed, without colours.
    """
    lines = "\n".join(line.strip() for line in text.splitlines())
    return [p for p in _TOLD if not re.search(p, lines, re.MULTILINE)]


def watch(
    job_dir: str, folder: pathlib.Path, job: "subprocess.Popen[bytes]"
) -> Text:
    """Looks at a job with `elastic_keras status` until it is in full swing.

    Args:
        job_dir: Its directory, as the picture shows it.
        folder: Where that begins.
        job: The job's process.

    Returns:
        What the command printed then.

    Raises:
        TimeoutError: It never told all that a picture must hold.
    """
    end = time.monotonic() + _PATIENCE
    text, missing = Text(), ["a job directory"]
    while job.poll() is None and time.monotonic() < end:
        if not (folder / job_dir / "config.json").exists():
            time.sleep(0.1)
            continue
        text = _look(job_dir, folder)
        missing = unsaid(text.plain)
        if not missing:
            return text
    raise TimeoutError(f"The status lacks {missing}:\n{text.plain}")


def _look(job_dir: str, folder: pathlib.Path) -> Text:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "elastic_keras.cli",
            "status",
            job_dir,
            "--once",
        ],
        cwd=folder,
        env={
            **os.environ,
            # As on a terminal.
            "FORCE_COLOR": "1",
            "TERM": "xterm-256color",
            "COLUMNS": str(_WIDTH),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return Text.from_ansi(done.stdout)


def take(text: Text, path: pathlib.Path) -> None:
    """Takes the picture.

    Args:
        text: What `watch` returned.
        path: The PNG file.
    """
    console = Console(record=True, width=_WIDTH, file=io.StringIO())
    text.rstrip()
    console.print(text)
    page = path.with_suffix(".html")
    page.write_text(
        console.export_html(
            theme=MONOKAI, inline_styles=True, code_format=_PAGE
        )
    )
    browser = chromium.start(scale=1.25)
    try:
        browser.set_window_size(*_WINDOW)
        browser.get(page.as_uri())
        shown = browser.find_element("tag name", "pre")
        assert not unsaid(shown.text), f"Not shown: {unsaid(shown.text)}"
        size = shown.size
        assert size["width"] < _WINDOW[0], f"Too wide: {size}"
        assert size["height"] < _WINDOW[1] - _FRAME, f"Too high: {size}"
        assert shown.screenshot(str(path))
    finally:
        browser.quit()
        page.unlink()
    print(f"{path}: {text.plain.splitlines()[0]}")
