"""Prometheus's text format."""

import dataclasses
import math
import re

from elastic_keras.monitoring import job_view, prometheus
from tests.monitoring.stand_ins import describe

_VIEW = job_view.of_description("runs/a", describe())
_SAMPLE = re.compile(
    r'([a-z_]+)((?:\{[a-z]+="(?:[^"\\\n]|\\.)*"(?:,[a-z]+="[^"]*")*\})?) (\S+)'
)


def _samples(view):
    """Returns value by name and labels; checks each line."""
    text = prometheus.render(view)
    assert text.endswith("\n")
    samples, kinds, helped = {}, {}, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helped.add(line.split()[2])
        elif line.startswith("# TYPE "):
            _, _, name, kinds[name] = line.split()
        else:
            name, labels, value = _SAMPLE.fullmatch(line).groups()
            # Samples come after their family's head, which is there once.
            assert list(kinds)[-1] == name
            assert name in helped
            assert name.startswith("elastic_keras_")
            assert (kinds[name] == "counter") == name.endswith("_total")
            assert (name, labels) not in samples
            samples[name, labels] = float(value)
    return {name + labels: value for (name, labels), value in samples.items()}


def test_what_a_job_tells():
    samples = _samples(_VIEW)
    for name, value in {
        'phase{phase="training"}': 1,
        'phase{phase="failed"}': 0,
        "steps": 40,
        "seconds_left": 61,
        "loss": 0.5,
        'metric{name="auc"}': 0.75,
        'evaluation{name="auc"}': 0.625,
        "staleness_mean_versions": 1.5,
        'tasks{state="waiting"}': 7,
        'restarts_total{role="worker"}': 2,
        'worker_up{worker="0"}': 1,
        'worker_up{worker="2"}': 0,
        'worker_steps_total{worker="1"}': 20,
        'worker_step_seconds{worker="1"}': 0.25,
        'shard_pushes_total{shard="0"}': 40,
        'shard_pulled_bytes_total{shard="1"}': 1 << 20,
        'table_rows{shard="1",table="users"}': 3,
        'table_bytes{shard="1",table="users"}': 99,
    }.items():
        assert samples[f"elastic_keras_{name}"] == value


def test_what_is_not_known_is_left_out():
    view = job_view.JobView("a", True, "starting")
    text = prometheus.render(view)
    for name in ("seconds_left", "loss", "worker_up", "metric"):
        assert f"elastic_keras_{name}" not in text


def test_odd_names_and_values():
    view = dataclasses.replace(
        _VIEW,
        loss=math.nan,
        metrics={'a"b\\c\nd': math.inf, "e": -math.inf, "f": None},
    )
    text = prometheus.render(view)
    assert "elastic_keras_loss NaN\n" in text
    assert r'elastic_keras_metric{name="a\"b\\c\nd"} +Inf' in text
    assert 'elastic_keras_metric{name="e"} -Inf\n' in text
    assert 'name="f"' not in text
    _samples(view)
