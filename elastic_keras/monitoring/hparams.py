"""A job as one line of TensorBoard's HParams table."""

import time
from collections.abc import Mapping

from tensorboard.compat.proto import summary_pb2
from tensorboard.plugins.hparams import metadata, plugin_data_pb2
from tensorboard.plugins.hparams.api_pb2 import (
    STATUS_FAILURE,
    STATUS_SUCCESS,
)

from elastic_keras.monitoring.summaries import SummaryWriter

Value = bool | int | float | str


def write(
    folder: str,
    *,
    name: str,
    options: Mapping[str, Value],
    values: Mapping[str, float],
    seconds: float,
    succeeded: bool,
) -> None:
    """Writes a run that holds what a job was given and what came of it.

    It holds nothing else: TensorBoard takes each curve of such a run for a
    column, and without a list of columns it joins those of several jobs.

    Args:
        folder: The run's folder.
        name: Of the job; one line of the table.
        options: The options to compare jobs by.
        values: The results to compare.
        seconds: How long the job took.
        succeeded: Whether it came to its end.

    Raises:
        OSError: It cannot be written.
    """
    now = time.time()
    begin = plugin_data_pb2.SessionStartInfo(
        group_name=name, start_time_secs=now - seconds
    )
    for key, value in options.items():
        _set(begin, key, value)
    end = plugin_data_pb2.SessionEndInfo(
        status=STATUS_SUCCESS if succeeded else STATUS_FAILURE,
        end_time_secs=now,
    )
    writer = SummaryWriter(folder)
    writer.add(
        _summary(
            metadata.SESSION_START_INFO_TAG,
            plugin_data_pb2.HParamsPluginData(session_start_info=begin),
        ),
        0,
    )
    writer.scalars(values, 0)
    writer.add(
        _summary(
            metadata.SESSION_END_INFO_TAG,
            plugin_data_pb2.HParamsPluginData(session_end_info=end),
        ),
        0,
    )
    writer.close()


def _set(
    begin: plugin_data_pb2.SessionStartInfo, key: str, value: Value
) -> None:
    entry = begin.hparams[key]
    # By the exact type: a bool is an int to isinstance.
    if type(value) is bool:
        entry.bool_value = value
    elif isinstance(value, int | float):
        entry.number_value = value
    else:
        entry.string_value = str(value)


def _summary(
    tag: str, content: plugin_data_pb2.HParamsPluginData
) -> summary_pb2.Summary:
    summary = summary_pb2.Summary()
    summary.value.add(
        tag=tag,
        metadata=metadata.create_summary_metadata(content),
        tensor=metadata.NULL_TENSOR,
    )
    return summary
