"""A job's line in the table of hparams, as TensorBoard's plugin reads it."""

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import api_pb2, metadata
from tensorboard.util import tensor_util

from elastic_keras.monitoring import hparams


def _write(folder, succeeded=True):
    hparams.write(
        str(folder),
        name="first 1234",
        options={"rate": 0.5, "workers": 2, "model": "deep", "wide": True},
        values={"auc": 0.75},
        seconds=10.0,
        succeeded=succeeded,
    )
    loaded = event_accumulator.EventAccumulator(str(folder))
    loaded.Reload()
    return loaded


def _content(loaded, tag):
    return loaded.SummaryMetadata(tag).plugin_data.content


def test_options_keep_their_kinds(tmp_path):
    loaded = _write(tmp_path)
    begin = metadata.parse_session_start_info_plugin_data(
        _content(loaded, metadata.SESSION_START_INFO_TAG)
    )
    assert begin.group_name == "first 1234"
    kinds = {k: v.WhichOneof("kind") for k, v in begin.hparams.items()}
    assert kinds == {
        "rate": "number_value",
        "workers": "number_value",
        "model": "string_value",
        "wide": "bool_value",
    }
    assert begin.hparams["rate"].number_value == 0.5
    assert begin.hparams["wide"].bool_value is True


def test_results_are_the_only_curves(tmp_path):
    loaded = _write(tmp_path)
    curves = [
        tag
        for tag in loaded.Tags()["tensors"]
        if loaded.SummaryMetadata(tag).plugin_data.plugin_name == "scalars"
    ]
    assert curves == ["auc"]
    (event,) = loaded.Tensors("auc")
    assert tensor_util.make_ndarray(event.tensor_proto) == 0.75


def test_the_end_says_how_it_came(tmp_path):
    for succeeded, status in (
        (True, api_pb2.STATUS_SUCCESS),
        (False, api_pb2.STATUS_FAILURE),
    ):
        loaded = _write(tmp_path / str(succeeded), succeeded)
        begin = metadata.parse_session_start_info_plugin_data(
            _content(loaded, metadata.SESSION_START_INFO_TAG)
        )
        end = metadata.parse_session_end_info_plugin_data(
            _content(loaded, metadata.SESSION_END_INFO_TAG)
        )
        assert end.status == status
        assert end.end_time_secs - begin.start_time_secs == 10
