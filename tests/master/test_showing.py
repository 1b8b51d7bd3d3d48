"""What a job that has ended leaves for TensorBoard."""

import asyncio
import logging
import pathlib

from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import metadata

from elastic_keras.config import JobConfig
from elastic_keras.master import showing
from tests.master.stand_in_shards import StandInShards
from tests.master.stand_ins import StandInWorker, make_job, run_job


def _run(folder, **options):
    """Runs a job to its end."""

    async def main():
        shards = StandInShards()
        job = make_job(folder, shards, **options)
        await run_job(job, [StandInWorker(job, shards, 0)])
        return job

    return asyncio.run(main())


def _load(folder):
    loaded = event_accumulator.EventAccumulator(
        str(folder / "summaries" / "result")
    )
    loaded.Reload()
    tag = metadata.SESSION_START_INFO_TAG
    begin = metadata.parse_session_start_info_plugin_data(
        loaded.SummaryMetadata(tag).plugin_data.content
    )
    tags = set(loaded.Tags()["tensors"])
    return begin, {t for t in tags if not t.startswith("_hparams_/")}


def test_a_job_is_one_line(tmp_path):
    job = _run(tmp_path, validation=(4,), max_staleness=3)
    showing.show_result(job)
    begin, values = _load(tmp_path)
    assert begin.group_name.startswith(tmp_path.name)
    assert begin.hparams["max_staleness"].number_value == 3
    assert begin.hparams["optimizer"].string_value
    assert begin.hparams["learning_rate"].number_value > 0
    assert values == {"loss", "examples_per_second"}


def test_without_evaluation_it_has_the_values_of_training(tmp_path):
    showing.show_result(_run(tmp_path))
    _, values = _load(tmp_path)
    assert values == {"training_loss", "examples_per_second"}


def test_options_of_the_model_are_columns_of_their_own():
    config = JobConfig.from_options(
        model_params="dim=8; hidden=[4, 2]; kind='x'", max_steps=7
    )
    options = showing.compared_options(config)
    assert options["model_params.dim"] == 8
    assert options["model_params.hidden"] == "[4, 2]"
    assert options["model_params.kind"] == "x"
    assert options["max_steps"] == 7
    assert "max_steps" not in showing.compared_options(JobConfig())


def test_a_job_does_not_fail_for_what_is_shown(tmp_path, caplog):
    job = make_job(tmp_path, StandInShards(), projector_tables="all")
    with caplog.at_level(logging.WARNING):
        showing.show_tables(job, pathlib.Path(tmp_path, "no snapshot"))
    assert "Nothing for TensorBoard's projector" in caplog.text
    (tmp_path / "summaries").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        showing.show_result(job)
    assert "No hparams for TensorBoard" in caplog.text
