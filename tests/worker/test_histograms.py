"""Histograms of a step's weights and gradients."""

import logging

import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util

from elastic_keras.worker.histograms import StepHistograms
from elastic_keras.worker.values import Dense, Pulled, StepGradients
from tests.worker.stand_ins import signature

_MODEL = signature(tables=1, dim=4, dense=((3, 2), (5,)))


def _step(iterations, rows=3):
    pulled = Pulled(
        rows=[np.full((rows, 4), 2, np.float32)],
        versions=(iterations,),
        dense=Dense(
            (iterations,),
            np.repeat(np.array([1, 5], np.float32), (6, 5)),
            np.empty(0, np.float32),
        ),
        iterations=iterations,
    )
    gradients = StepGradients(
        rows=[np.full((rows, 4), -3, np.float32)],
        dense=np.repeat(np.array([-1, -7], np.float32), (6, 5)),
        state_deltas=np.empty(0, np.float32),
    )
    return pulled, gradients


def _read(folder):
    """Returns (step, values, least, most) of the points by tag."""
    loaded = event_accumulator.EventAccumulator(str(folder))
    loaded.Reload()
    found = {}
    for tag in loaded.Tags()["tensors"]:
        for event in loaded.Tensors(tag):
            buckets = tensor_util.make_ndarray(event.tensor_proto)
            filled = buckets[buckets[:, 2] > 0]
            found.setdefault(tag, []).append(
                (event.step, buckets[:, 2].sum(), *filled[[0, -1], [0, 1]])
            )
    return found


def test_each_parameter_has_two_histograms(tmp_path):
    histograms = StepHistograms(str(tmp_path), _MODEL, 10.0, lambda: 0.0)
    histograms.begin()
    histograms.end(*_step(8))
    histograms.close()
    found = _read(tmp_path)
    for tag, value, count in (
        ("weights/table_0", 2, 12),
        ("gradients/table_0", -3, 12),
        ("weights/dense_0", 1, 6),
        ("weights/dense_1", 5, 5),
        ("gradients/dense_0", -1, 6),
        ("gradients/dense_1", -7, 5),
    ):
        ((step, values, least, most),) = found.pop(tag)
        assert (step, values) == (8, count)
        assert least <= value <= most
    assert not found


def test_a_pause_lies_between_them(tmp_path):
    # The clock is looked at before and, where one is made, after a step.
    times = iter([100.0, 100.0, 109.0, 110.0, 110.0, 119.5])
    histograms = StepHistograms(
        str(tmp_path), _MODEL, 10.0, lambda: next(times)
    )
    for iterations in (1, 2, 3, 4):
        histograms.end(*_step(iterations))
    histograms.close()
    steps = [point[0] for point in _read(tmp_path)["weights/dense_1"]]
    assert steps == [1, 3]


def test_large_ones_are_sampled(tmp_path):
    histograms = StepHistograms(str(tmp_path), _MODEL, 1.0, lambda: 0.0)
    histograms.end(*_step(1, rows=20_000))
    histograms.close()
    ((_, values, *_),) = _read(tmp_path)["gradients/table_0"]
    assert values == 10_000


def test_nothing_is_made_before_the_first(tmp_path):
    StepHistograms(str(tmp_path / "run"), _MODEL, 1.0).close()
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_is_told(tmp_path, caplog):
    (tmp_path / "run").write_text("")
    histograms = StepHistograms(str(tmp_path / "run"), _MODEL, 1.0, lambda: 0.0)
    with caplog.at_level(logging.WARNING):
        histograms.end(*_step(1))
        histograms.end(*_step(2))
    assert caplog.text.count("Histograms for TensorBoard are lost") == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_left_out(tmp_path, value):
    pulled, gradients = _step(1)
    gradients.dense[0] = value
    histograms = StepHistograms(str(tmp_path), _MODEL, 1.0, lambda: 0.0)
    histograms.end(pulled, gradients)
    histograms.close()
    ((_, values, *_),) = _read(tmp_path)["gradients/dense_0"]
    assert values == 5
