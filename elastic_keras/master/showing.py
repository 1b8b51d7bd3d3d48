"""What a job that has ended leaves for TensorBoard."""

import logging
import os
import pathlib
from typing import TYPE_CHECKING

from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.master import view
from elastic_keras.monitoring import hparams, projector
from elastic_keras.signature import OptimizerSpec
from elastic_keras.snapshots.errors import SnapshotError
from elastic_keras.snapshots.snapshot import Snapshot
from elastic_keras.zoo.params import parse_params

if TYPE_CHECKING:
    from elastic_keras.master.job import Job

_LOGGER = logging.getLogger(__name__)
_FOLDER = "summaries"
_RUN = "result"


def show_tables(job: "Job", snapshot: pathlib.Path) -> None:
    """Writes the tables of --projector_tables; takes its time.

    A job that has trained does not fail for them.

    Args:
        job: The job.
        snapshot: The snapshot of what it has trained.
    """
    folder = pathlib.Path(job.job_dir, _FOLDER)
    try:
        projector.write(folder, Snapshot(snapshot), job.config.monitoring)
    except (OSError, ConfigError, SnapshotError) as error:
        _LOGGER.warning("Nothing for TensorBoard's projector: %s", error)


def show_result(job: "Job") -> None:
    """Writes the job's line in TensorBoard's table of hparams.

    Args:
        job: A job that has ended.
    """
    history = job.history
    # Under names that no curve of training has: charts would show both.
    values = dict(history.evaluation)
    if not values and history.epochs:
        last = history.epochs[-1].values
        values = {f"training_{name}": value for name, value in last.items()}
    values["examples_per_second"] = view.average_speed(job)
    try:
        hparams.write(
            os.path.join(job.job_dir, _FOLDER, _RUN),
            # For people; the id keeps apart what has the same name.
            name=f"{os.path.basename(job.job_dir)} {job.config.job_id[:8]}",
            options={**compared_options(job.config), **_optimizer(job)},
            values=values,
            seconds=job.seconds,
            succeeded=job.outcome.phase == "succeeded",
        )
    except OSError as error:
        _LOGGER.warning("No hparams for TensorBoard: %s", error)


def compared_options(config: JobConfig) -> dict[str, hparams.Value]:
    """Returns the options that jobs are compared by.

    Args:
        config: A job's.
    """
    training, staleness = config.training, config.staleness
    options: dict[str, hparams.Value] = {
        "model": config.model.model_def,
        "seed": config.model.seed,
        "minibatch_size": config.data.minibatch_size,
        "num_epochs": training.num_epochs,
        "num_workers": config.cluster.num_workers,
        "num_ps": config.cluster.num_ps,
        "staleness_policy": staleness.staleness_policy,
        "max_staleness": staleness.max_staleness,
        "grads_to_wait": staleness.grads_to_wait,
        "wire_dtype": config.wire.wire_dtype,
        "wire_compression": config.wire.wire_compression,
    }
    if training.max_steps:
        options["max_steps"] = training.max_steps
    for name, value in parse_params(config.model.model_params).items():
        plain = isinstance(value, bool | int | float | str)
        options[f"model_params.{name}"] = value if plain else repr(value)
    return options


def _optimizer(job: "Job") -> dict[str, hparams.Value]:
    """Returns the optimizer as the model had it at the start."""
    if job.snapshot:
        try:
            snapshot = Snapshot(os.path.join(job.job_dir, job.snapshot))
        except SnapshotError as error:
            _LOGGER.warning("The optimizer is not known: %s", error)
            return {}
        return _described(snapshot.signature.optimizers[0])
    # It has not come to its end: a shard knows the rate of now.
    rates = [status.learning_rate for status in job.monitor.statuses]
    return {"learning_rate": rates[0]} if any(rates) else {}


def _described(optimizer: OptimizerSpec) -> dict[str, hparams.Value]:
    made: dict[str, hparams.Value] = {
        "optimizer": optimizer.name,
        "learning_rate": optimizer.learning_rate,
    }
    if optimizer.schedule is not None:
        made["learning_rate_schedule"] = optimizer.schedule.name
    return made
