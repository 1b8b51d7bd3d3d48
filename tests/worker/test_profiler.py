"""TensorFlow's profiler between two steps."""

import logging

import numpy as np
import tensorflow as tf

from elastic_keras.worker.profiler import StepProfiler
from elastic_keras.worker.values import Dense, Pulled, StepGradients

_NOTHING = np.empty(0, np.float32)
_PULLED = Pulled([], (1,), Dense((1,), _NOTHING, _NOTHING), 1)
_GRADIENTS = StepGradients([], _NOTHING, _NOTHING)


def _profiles(folder):
    """Returns the profiles that TensorBoard finds in a run."""
    return list(folder.glob("plugins/profile/*/*.xplane.pb"))


def _train(profiler, steps):
    for _ in range(steps):
        profiler.begin()
        tf.linalg.matmul(tf.ones((8, 8)), tf.ones((8, 8)))
        profiler.end(_PULLED, _GRADIENTS)


def test_the_profile_knows_its_steps(tmp_path):
    profiler = StepProfiler(str(tmp_path), 3, 4)
    _train(profiler, 3)
    assert not _profiles(tmp_path)
    _train(profiler, 3)
    profiler.close()
    (profile,) = _profiles(tmp_path)
    content = profile.read_bytes()
    assert b"MatMul" in content
    assert b"step_num" in content


def test_a_job_may_end_before_the_last_step(tmp_path):
    profiler = StepProfiler(str(tmp_path), 2, 100)
    _train(profiler, 2)
    profiler.begin()
    profiler.close()
    profiler.close()
    assert len(_profiles(tmp_path)) == 1


def test_a_job_may_end_before_the_first_step(tmp_path):
    profiler = StepProfiler(str(tmp_path), 5, 6)
    _train(profiler, 2)
    profiler.close()
    assert not _profiles(tmp_path)


def test_another_profiler_is_no_error(tmp_path, caplog):
    tf.profiler.experimental.start(str(tmp_path / "other"))
    try:
        with caplog.at_level(logging.WARNING):
            profiler = StepProfiler(str(tmp_path / "own"), 1, 1)
            _train(profiler, 2)
            profiler.close()
    finally:
        tf.profiler.experimental.stop()
    assert "No profile is made" in caplog.text
    assert len(_profiles(tmp_path / "other")) == 1
    assert not _profiles(tmp_path / "own")
