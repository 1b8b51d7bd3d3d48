"""The job directory as the launcher makes it."""

import json
import stat

import pytest

from elastic_keras.cluster.job_directory import make_job_directory
from elastic_keras.config import ConfigError, JobConfig


def test_made_with_its_logs(tmp_path):
    path = tmp_path / "runs" / "one"
    config = JobConfig.from_options(job_dir=str(path), num_ps=3)
    directory = make_job_directory(config)
    assert directory.log("ps-2") == path / "logs" / "ps-2.log"
    assert directory.log("ps-2").parent.is_dir()
    directory.write_config(config)
    read = JobConfig.from_json((path / "config.json").read_text())
    assert read == config
    directory.write_restarts({"worker": 2})
    assert json.loads((path / "restarts.json").read_text()) == {"worker": 2}


def test_the_token_is_for_its_owner(tmp_path):
    directory = make_job_directory(
        JobConfig.from_options(job_dir=str(tmp_path / "job"))
    )
    assert directory.read_token() == ""
    directory.write_token("secret")
    assert directory.read_token() == "secret"
    assert stat.S_IMODE(directory.token.stat().st_mode) == 0o600
    directory.remove_token()
    directory.remove_token()
    assert directory.read_token() == ""


def test_new_names_are_made_up_under_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = JobConfig.from_options(model_def="criteo.deepfm")
    first, second = (make_job_directory(config).path for _ in range(2))
    assert first != second
    assert first.parent == second.parent == tmp_path / "runs"
    assert first.name.startswith("deepfm-")


def test_name_for_a_module_given_by_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = JobConfig.from_options(model_def="/zoo/my_model.py")
    assert make_job_directory(config).path.name.startswith("my_model-")


def test_directory_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    config = JobConfig.from_options(job_dir=str(tmp_path))
    with pytest.raises(ConfigError, match="holds another job") as caught:
        make_job_directory(config)
    assert f"Received: job_dir={str(tmp_path)!r}" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_unwritable_directory_is_named(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    config = JobConfig.from_options(job_dir=str(blocker / "job"))
    with pytest.raises(ConfigError, match="cannot be written: Not a direc"):
        make_job_directory(config)
