"""The page of charts, as TensorBoard's plugin reads it."""

import re

import pytest
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.custom_scalar import layout_pb2, metadata
from tensorboard.util import tensor_util

from elastic_keras.monitoring.layout import layout
from elastic_keras.monitoring.summaries import SummaryWriter


def _read(folder):
    """Returns the patterns of each chart of the newest page."""
    loaded = event_accumulator.EventAccumulator(str(folder))
    loaded.Reload()
    tag = metadata.CONFIG_SUMMARY_TAG
    kind = loaded.SummaryMetadata(tag).plugin_data.plugin_name
    assert kind == metadata.PLUGIN_NAME
    content = tensor_util.make_ndarray(loaded.Tensors(tag)[-1].tensor_proto)
    page = layout_pb2.Layout.FromString(content.item())
    return {
        chart.title: list(chart.multiline.tag)
        for category in page.category
        for chart in category.chart
    }


@pytest.fixture
def charts(tmp_path):
    """The charts of a page that was written a second time, with metrics."""
    writer = SummaryWriter(str(tmp_path))
    writer.add(layout(), 0)
    writer.add(layout(["loss", "auc", "hits@5.1 (top)"]), 3)
    writer.close()
    return _read(tmp_path)


def test_each_metric_has_a_chart(charts):
    assert list(charts)[:3] == ["loss", "auc", "hits@5.1 (top)"]
    assert _shown(charts, "evaluation/hits@5.1 (top)") == ["hits@5.1 (top)"]
    assert _shown(charts, "evaluation/hits@541 (top)") == []


@pytest.mark.parametrize(
    ("tag", "chart"),
    [
        ("train/loss", "loss"),
        ("epoch/auc", "auc"),
        ("evaluation/auc", "auc"),
        ("speed/examples_per_second", "examples a second, all workers"),
        (
            "speed/worker_12/examples_per_second",
            "examples a second, by worker",
        ),
        ("speed/steps_per_second", "steps a second"),
        ("staleness/mean", "versions between pull and apply"),
        ("staleness/max", "versions between pull and apply"),
        ("shard_3/waiting_pulls", "pulls that wait for the bound"),
        ("pull/milliseconds", "milliseconds of a pull"),
        ("push/milliseconds_max", "milliseconds of a push"),
        ("push/bytes_per_second", "bytes a second"),
        ("tables/users/rows", "rows, by table"),
        ("tables/a/b/bytes", "bytes, by table"),
        ("shard_10/rows", "rows, by shard"),
        ("shard_0/bytes", "bytes, by shard"),
    ],
)
def test_each_curve_is_in_one_chart(charts, tag, chart):
    assert _shown(charts, tag) == [chart]


def test_other_curves_are_left_out(charts):
    for tag in ("train/auc_2", "shard_0/tables/users/rows", "tasks/waiting"):
        assert _shown(charts, tag) == []


def _shown(charts, tag):
    """Returns the charts that show a curve, by TensorBoard's rule."""
    return [
        title
        for title, patterns in charts.items()
        if any(re.match(pattern, tag) for pattern in patterns)
    ]
