"""The config of a job on a trained model."""

from elastic_keras.config import JobConfig
from elastic_keras.trained import config_for
from tests.inspecting.stand_ins import take


def test_the_training_jobs_port_is_not_taken_over(tmp_path):
    config = JobConfig.from_options(
        training_data="x", progress="plain", metrics_port=9100
    )
    take(tmp_path, [], config=config)
    made = config_for(
        "evaluate", {"job_dir": str(tmp_path), "validation_data": "y"}
    )
    assert made.monitoring.metrics_port == 0
    assert made.monitoring.progress == "plain"
