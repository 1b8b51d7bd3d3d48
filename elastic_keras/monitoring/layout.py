"""The page of a job's charts: TensorBoard's Custom Scalars."""

import re
from collections.abc import Iterable

from tensorboard.compat.proto import (
    summary_pb2,
    tensor_pb2,
    tensor_shape_pb2,
    types_pb2,
)
from tensorboard.plugins.custom_scalar import layout_pb2, metadata

# Title of a chart -> patterns of the curves in it, by category. Patterns, and
# no names: what workers, shards and tables there are is found out later.
_CHARTS = {
    "Throughput": {
        "examples a second, all workers": [r"speed/examples_per_second"],
        "examples a second, by worker": [
            r"speed/worker_\d+/examples_per_second"
        ],
        "steps a second": [r"speed/steps_per_second"],
    },
    "Staleness": {
        "versions between pull and apply": [r"staleness/(mean|max)"],
        "pulls that wait for the bound": [r"shard_\d+/waiting_pulls"],
    },
    "Pull and push": {
        "milliseconds of a pull": [r"pull/milliseconds(_max)?"],
        "milliseconds of a push": [r"push/milliseconds(_max)?"],
        "bytes a second": [r"(pull|push)/bytes_per_second"],
    },
    "Tables": {
        "rows, by table": [r"tables/.+/rows"],
        "bytes, by table": [r"tables/.+/bytes"],
        "rows, by shard": [r"shard_\d+/rows"],
        "bytes, by shard": [r"shard_\d+/bytes"],
    },
}


def layout(metrics: Iterable[str] = ()) -> summary_pb2.Summary:
    """Returns the page as a summary; TensorBoard shows the newest one.

    Args:
        metrics: Names of the model's metrics, each to have a chart beside
            that of the loss.
    """
    page = layout_pb2.Layout()
    model = page.category.add(title="Model")
    for name in ("loss", *sorted(set(metrics) - {"loss"})):
        _add(model, name, [rf"(train|epoch|evaluation)/{re.escape(name)}"])
    for title, charts in _CHARTS.items():
        category = page.category.add(title=title)
        for chart, patterns in charts.items():
            _add(category, chart, patterns)
    summary = summary_pb2.Summary()
    summary.value.add(
        tag=metadata.CONFIG_SUMMARY_TAG,
        metadata=metadata.create_summary_metadata(),
        tensor=tensor_pb2.TensorProto(
            dtype=types_pb2.DT_STRING,
            tensor_shape=tensor_shape_pb2.TensorShapeProto(),
            string_val=[page.SerializeToString()],
        ),
    )
    return summary


def _add(
    category: layout_pb2.Category, title: str, patterns: list[str]
) -> None:
    # TensorBoard looks for a pattern at the beginning of a tag only.
    tags = [f"{pattern}$" for pattern in patterns]
    category.chart.add(
        title=title, multiline=layout_pb2.MultilineChartContent(tag=tags)
    )
