"""All that a job writes for TensorBoard."""

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.custom_scalar import metadata as custom_scalars
from tensorboard.plugins.hparams import metadata as hparams
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from tests.end_to_end.harness import train, write_clicks

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def summaries(tmp_path_factory):
    """The summaries of a job with everything on."""
    folder = tmp_path_factory.mktemp("charted")
    write_clicks(folder / "train.csv", 800, seed=1)
    write_clicks(folder / "validation.csv", 200, seed=3)
    names = [f"{index}\tthe {index}\n" for index in range(40)]
    (folder / "names.tsv").write_text("".join(names))
    done = train(
        folder / "job",
        f"--training_data={folder}/train.csv",
        f"--validation_data={folder}/validation.csv",
        "--num_workers=2",
        "--num_ps=2",
        "--max_staleness=4",
        "--num_epochs=3",
        "--summary_secs=0.2",
        "--histogram_secs=0.1",
        "--profile_steps=5,8",
        "--projector_tables=taste",
        f"--projector_names=taste={folder}/names.tsv",
        model="charted",
    )
    done.succeeded()
    return done.job_dir / "summaries"


def _files(folder):
    return sorted(folder.glob("events.out.tfevents.*"))


def _load(folder):
    (path,) = _files(folder)
    loaded = event_accumulator.EventAccumulator(str(path))
    loaded.Reload()
    return loaded


def _chiefs(summaries, run="."):
    """Loads what each worker wrote while it was the chief.

    Worker 1 is that until worker 0 has joined.
    """
    folders = (path / run for path in sorted(summaries.glob("worker_*")))
    return [_load(folder) for folder in folders if _files(folder)]


def _tags(runs):
    return {tag for run in runs for tag in run.Tags()["tensors"]}


def _steps(runs, tag):
    """Returns the steps of a tag's points in all runs."""
    return sorted(
        event.step
        for run in runs
        if tag in run.Tags()["tensors"]
        for event in run.Tensors(tag)
    )


def test_the_page_has_its_curves(summaries):
    assert len(_files(summaries)) == 1
    tags = set(_load(summaries).Tags()["tensors"])
    assert custom_scalars.CONFIG_SUMMARY_TAG in tags
    assert tags >= {
        "train/loss",
        "evaluation/auc",
        "epoch/auc",
        "speed/examples_per_second",
        "speed/worker_0/examples_per_second",
        "staleness/mean",
        "pull/milliseconds",
        "push/milliseconds",
        "tables/taste/rows",
        "tables/taste/bytes",
        "shard_1/rows",
    }


def test_weights_and_gradients_have_histograms(summaries):
    chiefs = _chiefs(summaries)
    tags = _tags(chiefs)
    parameters = ("taste", "dense/kernel", "dense/bias")
    for kind in ("weights", "gradients"):
        for parameter in parameters:
            assert f"{kind}/{parameter}" in tags
    assert len(_steps(chiefs, "weights/taste")) > 1


def test_a_profile_is_there(summaries):
    profiles = list(summaries.glob("worker_*/plugins/profile/*/*.xplane.pb"))
    assert profiles
    for profile in profiles:
        assert profile.stat().st_size > 1000


def test_the_projector_has_the_table(summaries):
    text = (summaries / "projector_config.pbtxt").read_text()
    (entry,) = text_format.Parse(text, ProjectorConfig()).embeddings
    assert entry.tensor_name == "taste"
    rows = np.loadtxt(summaries / entry.tensor_path, delimiter="\t")
    assert rows.shape == tuple(entry.tensor_shape) == (40, 4)
    header, *lines = (summaries / entry.metadata_path).read_text().splitlines()
    assert header == "name\tid"
    assert sorted(lines) == sorted(f"the {i}\t{i}" for i in range(40))


def test_the_job_is_a_line_of_hparams(summaries):
    loaded = _load(summaries / "result")
    begin = hparams.parse_session_start_info_plugin_data(
        loaded.SummaryMetadata(
            hparams.SESSION_START_INFO_TAG
        ).plugin_data.content
    )
    assert begin.hparams["learning_rate"].number_value == pytest.approx(0.1)
    assert begin.hparams["optimizer"].string_value == "adagrad"
    assert begin.hparams["num_workers"].number_value == 2
    assert {"loss", "auc"} <= set(loaded.Tags()["tensors"])


def test_the_callback_of_keras_writes_what_it_does_in_fit(summaries):
    train = _chiefs(summaries, "keras/train")
    assert any(run.Tags()["graph"] for run in train)
    assert _tags(train) >= {
        # The model's own graph.
        "keras",
        "batch_loss",
        "batch_auc",
        "batch_steps_per_second",
        "epoch_loss",
        "epoch_auc",
        "epoch_learning_rate",
        "epoch_steps_per_second",
        "dense/kernel/histogram",
        "dense/kernel/image",
    }
    # One worker writes, the chief of the moment.
    assert _steps(train, "epoch_loss") == [0, 1, 2]
    assert _steps(train, "dense/kernel/histogram") == [0, 1, 2]
    assert len(_steps(train, "batch_loss")) > 1
    validation = _chiefs(summaries, "keras/validation")
    assert _steps(validation, "epoch_auc") == [0, 1, 2]
    tag = "evaluation_auc_vs_iterations"
    assert _steps(validation, tag) == [50, 100, 150]
