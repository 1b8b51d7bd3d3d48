"""A job's state as text."""

import dataclasses

from rich.console import Console

from elastic_keras.monitoring import job_table, job_view
from tests.monitoring.stand_ins import describe

_VIEW = job_view.of_description("runs/a", describe(message="waiting for rain"))


def _text(view, width=80):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(job_table.render(view))
    return capture.get()


def _line(text, beginning):
    lines = (" ".join(line.split()) for line in text.splitlines())
    (found,) = (line for line in lines if line.startswith(beginning))
    return found


def test_a_running_job():
    text = _text(_VIEW)
    assert _line(text, "runs/a") == "runs/a training 1m01s left"
    assert "epoch 2/3, 500/1,500 records, 40 steps, 1m15s since" in text
    assert _line(text, "speed") == "speed 1,234 examples/s"
    assert _line(text, "training") == "training loss 0.5, auc 0.75"
    assert _line(text, "evaluation") == "evaluation auc 0.625"
    assert "1.5 versions on average, 5 at most" in text
    assert _line(text, "tasks") == "tasks 2 running, 7 waiting"
    assert _line(text, "restarts") == "restarts worker 2"
    assert _line(text, "0 20") == "0 20 600 2.0 125.0 3.0"
    assert _line(text, "1 20") == "1 20 600 250.0 125.0 3.0 slowest"
    assert _line(text, "2 ") == "2 0 - - - - not there"
    assert _line(text, "1 3").endswith("40 2.0 kB/s 1.0 kB/s 1 hottest")
    assert "waiting for rain" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_job_that_has_ended():
    view = dataclasses.replace(
        _VIEW, running=False, phase="failed", workers=(), error="Traceback"
    )
    text = _text(view)
    assert _line(text, "runs/a") == "runs/a failed not running"
    assert "Traceback" in text
    assert "tasks" not in text
    assert "worker  " not in text
    # What it had in all, not in a second.
    assert "1.0 MB" in text
    assert "/s" not in text.split("shard")[1]


def test_text_of_a_users_is_no_markup():
    view = dataclasses.replace(_VIEW, job_dir="[red]", error="x[/bold]")
    assert "[red]" in _text(view)
    assert "x[/bold]" in _text(view)


def test_a_narrow_terminal():
    assert max(map(len, _text(_VIEW, width=40).splitlines())) <= 40


def test_nothing_known_yet():
    view = job_view.JobView("a", True, "starting")
    assert "starting" in _text(view)
