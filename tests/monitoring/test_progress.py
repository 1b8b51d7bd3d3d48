"""The progress display: what it says and when."""

import io

from rich.console import Console

from elastic_keras.monitoring import progress
from elastic_keras.wire.proto import master_pb2


def _status(**changes):
    status = master_pb2.JobStatus(
        phase="training",
        epoch=1,
        num_epochs=3,
        records_done=1500,
        records_expected=3000,
        steps=12,
        examples_per_second=2345.6,
        seconds_left=75.0,
        loss=0.51234,
        staleness_max=4,
        staleness_mean=1.25,
        workers_alive=2,
    )
    status.metrics["auc"] = 0.75
    status.metrics["loss"] = 0.5
    status.evaluation["auc"] = 0.7
    for name, value in changes.items():
        setattr(status, name, value)
    return status


def test_line_names_everything():
    assert progress.describe(_status()) == [
        "epoch 2/3",
        "1,500/3,000 records",
        "2,346 examples/s",
        "loss 0.5123",
        "auc 0.75",
        "val_auc 0.7",
        "staleness 1.2 versions on average",
        "2 workers",
        "1m15s left",
    ]


def test_line_of_a_job_that_starts():
    status = master_pb2.JobStatus(
        phase="starting", message="waiting for workers: 0 of 2"
    )
    assert progress.describe(status) == ["0 workers"]


def test_a_loss_that_is_not_known_yet_is_left_out():
    assert not [x for x in progress.describe(_status(loss=0)) if "loss" in x]


def test_no_staleness_is_left_out():
    parts = progress.describe(_status(staleness_max=0, staleness_mean=0.0))
    assert not [x for x in parts if "staleness" in x]


def test_plain_prints_every_two_seconds_and_on_change():
    now = [0.0]
    stream = io.StringIO()
    shown = progress.PlainProgress(stream, clock=lambda: now[0])
    for moment, phase in [
        (0.0, "training"),
        (1.9, "training"),
        (2.0, "training"),
        (2.1, "evaluating"),
        (2.2, "succeeded"),
    ]:
        now[0] = moment
        steps = round(moment * 10)
        shown.update(_status(phase=phase, steps=steps, loss=1 / (1 + steps)))
    words = [line.split()[0] for line in stream.getvalue().splitlines()]
    assert words == ["training", "training", "evaluating", "succeeded"]
    assert "left" not in stream.getvalue().splitlines()[-1]


def test_plain_says_what_is_not_new_once():
    now = [0.0]
    stream = io.StringIO()
    shown = progress.PlainProgress(stream, lambda: now[0])
    waiting = "waiting for workers: 1 of 2 are there"
    for moment, changes in enumerate(
        [
            {"phase": "starting"},
            {"phase": "starting", "message": waiting},
            {"phase": "starting", "message": waiting},
            {"message": waiting},
            {"message": waiting, "loss": 0.25},
            {"loss": 0.25},
        ]
    ):
        now[0] = 2.0 * moment
        shown.update(_status(**changes))
    lines = stream.getvalue().splitlines()
    assert [line.split()[0] for line in lines] == [
        "starting",
        "starting",
        "training",
        "training",
    ]
    assert [waiting in line for line in lines] == [False, True, False, False]


def test_lines_that_stay():
    stream = io.StringIO()
    line = "TensorBoard: tensorboard --logdir '[bold]runs/" + 80 * "x" + "'"
    for mode in ("plain", "rich", "none"):
        shown = progress.make_progress(mode, stream)
        shown.say(line)
        shown.close()
    assert stream.getvalue().count(line) == 2


def test_rich_draws_the_newest_status():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=200)
    shown = progress.RichProgress(console)
    shown.update(_status())
    shown.update(_status(phase="succeeded", records_done=3000))
    shown.close()
    text = stream.getvalue()
    assert "succeeded" in text
    assert "3,000/3,000 records" in text


def test_rich_keeps_the_metrics_on_a_narrow_terminal():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80)
    shown = progress.RichProgress(console)
    shown.update(_status(phase="succeeded"))
    shown.close()
    words = stream.getvalue().split()
    for word in ("0.5123", "0.75", "val_auc", "workers"):
        assert word in words


def test_modes():
    stream = io.StringIO()
    made = progress.make_progress("auto", stream)
    assert isinstance(made, progress.PlainProgress)
    quiet = progress.make_progress("none", stream)
    quiet.update(_status())
    quiet.close()
    assert stream.getvalue() == ""
    live = progress.make_progress("rich", stream)
    assert isinstance(live, progress.RichProgress)
    live.close()
