"""Event files read back by TensorBoard's own loader."""

import subprocess
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.util import tensor_util

from elastic_keras.monitoring.summaries import SummaryWriter


def _load(path: str) -> event_accumulator.EventAccumulator:
    loaded = event_accumulator.EventAccumulator(path)
    loaded.Reload()
    return loaded


def _values(loaded, tag):
    return [
        (event.step, tensor_util.make_ndarray(event.tensor_proto))
        for event in loaded.Tensors(tag)
    ]


def test_scalars_are_read_back(tmp_path):
    writer = SummaryWriter(str(tmp_path / "run"))
    writer.scalar("train/loss", 0.5, 1)
    writer.scalars({"train/loss": 0.25, "train/auc": 0.75}, 2)
    writer.close()
    loaded = _load(str(tmp_path / "run"))
    assert _values(loaded, "train/loss") == [(1, 0.5), (2, 0.25)]
    assert _values(loaded, "train/auc") == [(2, 0.75)]
    assert loaded.SummaryMetadata("train/loss").plugin_data.plugin_name == (
        "scalars"
    )


def test_counts_keep_their_buckets(tmp_path):
    writer = SummaryWriter(str(tmp_path))
    writer.histogram_counts("staleness", [3, 0, 1], 7)
    writer.histogram_counts("pull", [2, 5], 7, edges=[0.0, 0.5, 2.0])
    writer.close()
    loaded = _load(str(tmp_path))
    [(step, staleness)] = _values(loaded, "staleness")
    assert step == 7
    np.testing.assert_array_equal(
        staleness, [[-0.5, 0.5, 3], [0.5, 1.5, 0], [1.5, 2.5, 1]]
    )
    [(_, pull)] = _values(loaded, "pull")
    np.testing.assert_array_equal(pull, [[0, 0.5, 2], [0.5, 2, 5]])


def test_histogram_of_values_counts_the_finite_ones(tmp_path):
    writer = SummaryWriter(str(tmp_path))
    writer.histogram("rows", np.array([[1.0, 2.0], [np.nan, 4.0]]), 0)
    writer.close()
    [(_, buckets)] = _values(_load(str(tmp_path)), "rows")
    assert buckets[:, 2].sum() == 3
    assert buckets[0, 0] == 1.0
    assert buckets[-1, 1] == 4.0


def test_text_is_read_back(tmp_path):
    writer = SummaryWriter(str(tmp_path))
    writer.text("config", "**seed** 3", 0)
    writer.close()
    [(_, text)] = _values(_load(str(tmp_path)), "config")
    assert text.tolist() == [b"**seed** 3"]


def test_flush_makes_points_visible_before_close(tmp_path):
    writer = SummaryWriter(str(tmp_path))
    writer.scalar("loss", 1.0, 0)
    writer.flush()
    assert _values(_load(str(tmp_path)), "loss") == [(0, 1.0)]
    writer.close()
    writer.scalar("loss", 2.0, 1)
    assert _values(_load(str(tmp_path)), "loss") == [(0, 1.0)]


def test_edges_that_do_not_fit_are_refused(tmp_path):
    writer = SummaryWriter(str(tmp_path))
    with pytest.raises(ValueError, match="Received: edges=2, counts=3"):
        writer.histogram_counts("x", [1, 2, 3], 0, edges=[0, 1])
    writer.close()


def test_import_leaves_tensorflow_alone(tmp_path):
    code = (
        "import sys, elastic_keras.monitoring.summaries as s;"
        "s.SummaryWriter(sys.argv[1]).scalar('a', 1.0, 0);"
        "sys.exit('tensorflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=False
    )
    assert done.returncode == 0
