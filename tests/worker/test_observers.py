"""Which observers a job has."""

import os

from elastic_keras.config import JobConfig
from elastic_keras.worker.histograms import StepHistograms
from elastic_keras.worker.observers import make_observers
from elastic_keras.worker.profiler import StepProfiler
from tests.worker.stand_ins import signature


def _kinds(folder, **options):
    config = JobConfig.from_options(**options)
    made = make_observers(config, str(folder), signature())
    return [type(observer) for observer in made]


def test_options_say_who_looks(tmp_path):
    assert _kinds(tmp_path) == [StepHistograms]
    assert _kinds(tmp_path, histogram_secs=0) == []
    assert _kinds(tmp_path, histogram_secs=0, profile_steps="1,2") == [
        StepProfiler
    ]
    # Nothing is written before there is a step.
    assert os.listdir(tmp_path) == []
