"""Which options a training that goes on takes."""

import json

import pytest

from elastic_keras import resuming
from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.master import state_file


@pytest.fixture
def job_dir(tmp_path):
    """A job that trained, and was killed."""
    path = tmp_path / "job"
    path.mkdir()
    config = JobConfig.from_options(
        model_def="criteo.deepfm",
        training_data="day.csv",
        num_workers=3,
        num_ps=2,
        num_epochs=5,
        job_dir=str(path),
    )
    text = json.loads(config.to_json())
    text["job_id"] = "an id"
    (path / "config.json").write_text(json.dumps(text))
    state_file.write(path, {"flow": None})
    return str(path)


def test_what_is_not_given_is_as_it_was(job_dir):
    config = resuming.training_config({"job_dir": job_dir})
    assert config.job_id == "an id"
    assert config.model.model_def == "criteo.deepfm"
    assert config.training.num_epochs == 5
    assert not resuming.is_finished(config)


def test_some_may_change(job_dir):
    config = resuming.training_config(
        {
            "job_dir": job_dir,
            "num_epochs": 7,
            "num_workers": 1,
            "progress": "none",
            "num_ps": 2,
            "training_data": "day.csv",
        }
    )
    assert config.training.num_epochs == 7
    assert config.cluster.num_workers == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_ps", 3),
        ("seed", 1),
        ("training_data", "night.csv"),
        ("minibatch_size", 3),
        ("max_staleness", 1),
        ("model_def", "other"),
        ("journal", False),
    ],
)
def test_what_cannot_change_is_refused(job_dir, name, value):
    with pytest.raises(ConfigError, match=f"--{name} cannot change") as caught:
        resuming.training_config({"job_dir": job_dir, name: value})
    assert f"Received: {name}={value!r}" in str(caught.value)


def test_a_finished_training(job_dir):
    config = resuming.training_config({"job_dir": job_dir})
    path = f"{job_dir}/result.json"
    for status, finished in [("stopped", False), ("succeeded", True)]:
        with open(path, "w") as file:
            json.dump({"status": status}, file)
        assert resuming.is_finished(config) == finished


def test_a_new_training(tmp_path):
    config = resuming.training_config({"job_dir": str(tmp_path), "seed": 3})
    assert config == JobConfig.from_options(job_dir=str(tmp_path), seed=3)
    assert not resuming.is_finished(config)


def test_a_snapshot_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="No such folder"):
        resuming.training_config({"restore_from": str(tmp_path / "none")})
