"""What becomes of a model's outputs in a worker."""

import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.predictions.parts import Parts
from elastic_keras.worker.predicting import Predicting, named


class _Processor:
    def __init__(self):
        self.seen = []

    def process(self, predictions, worker_id):
        self.seen.append((predictions, worker_id))


def _make(folder, processor=None, to_file=True):
    return Predicting(
        job_dir=str(folder), worker=3, processor=processor, to_file=to_file
    )


def test_batches_become_one_part(tmp_path):
    predicting = _make(tmp_path)
    for task in (0, 1):
        predicting.begin()
        for batch in range(2):
            predicting.add(tf.fill([2, 1], float(10 * task + batch)))
        predicting.end(task)
    (first, second) = Parts(str(tmp_path)).arrays()
    assert first["predictions"][:, 0].tolist() == [0, 0, 1, 1]
    assert second["predictions"][:, 0].tolist() == [10, 10, 11, 11]


def test_a_task_that_failed_half_way_leaves_nothing(tmp_path):
    predicting = _make(tmp_path)
    predicting.begin()
    predicting.add(tf.ones([2, 1]))
    predicting.begin()
    predicting.add(tf.zeros([2, 1]))
    predicting.end(0)
    assert Parts(str(tmp_path)).examples == 2


def test_a_processor_gets_arrays_as_the_model_nests_them(tmp_path):
    processor = _Processor()
    predicting = _make(tmp_path, processor, to_file=False)
    predicting.begin()
    predicting.add({"a": tf.ones([2]), "b": [tf.zeros([2, 1])]})
    predicting.end(0)
    ((outputs, worker),) = processor.seen
    assert worker == 3
    assert isinstance(outputs["a"], np.ndarray)
    assert outputs["b"][0].shape == (2, 1)
    assert Parts(str(tmp_path)).names == []


@pytest.mark.parametrize(
    ("outputs", "names", "expected"),
    [
        (1, [], {"predictions": 1}),
        ([1, 2], ["a", "b"], {"a": 1, "b": 2}),
        ((1, 2), [], {"predictions_0": 1, "predictions_1": 2}),
        ({"a": 1, "b": {"c": 2}}, [], {"a": 1, "b/c": 2}),
        ({"a": [1, 2]}, [], {"a/predictions_0": 1, "a/predictions_1": 2}),
    ],
)
def test_names_of_outputs(outputs, names, expected):
    assert named(outputs, names) == expected


@pytest.mark.parametrize(
    ("tensor", "dtype"),
    [
        (tf.constant([1.5], tf.bfloat16), np.float32),
        (tf.constant([1.5], tf.float16), np.float32),
        (tf.constant([b"ab"]), np.dtype("S2")),
        (tf.sparse.from_dense([[0.0, 2.0]]), np.float32),
    ],
)
def test_whatever_a_model_returns_is_written(tmp_path, tensor, dtype):
    predicting = _make(tmp_path)
    predicting.begin()
    predicting.add(tensor)
    predicting.end(0)
    assert Parts(str(tmp_path)).dtype("predictions") == dtype


def test_ragged_outputs_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="Ragged outputs"):
        _make(tmp_path).add(tf.ragged.constant([[1.0], [2.0, 3.0]]))


def test_batches_of_other_shapes_are_said(tmp_path):
    predicting = _make(tmp_path)
    predicting.begin()
    predicting.add(tf.ones([2, 3]))
    predicting.add(tf.ones([2, 4]))
    with pytest.raises(ConfigError, match="differs from batch to batch"):
        predicting.end(0)
