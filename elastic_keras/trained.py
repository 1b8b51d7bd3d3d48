"""The config of a job on a trained model, from what its training left."""

import dataclasses
import datetime
import itertools
import json
import os
from collections.abc import Mapping
from typing import Any

from elastic_keras.config import (
    ConfigError,
    DataOptions,
    JobConfig,
    OutputOptions,
    SnapshotOptions,
    StalenessOptions,
    TrainingOptions,
)
from elastic_keras.exports import report
from elastic_keras.exports.destination import check_output, read_formats
from elastic_keras.predictions.output import check_path
from elastic_keras.snapshots.folder import open_snapshot
from elastic_keras.snapshots.snapshot import Snapshot
from elastic_keras.zoo.location import locate
from elastic_keras.zoo.params import parse_params

_ROOT = "runs"
_PROCESSORS = ("prediction_outputs_processor", "PredictionOutputsProcessor")


def config_for(command: str, options: Mapping[str, Any]) -> JobConfig:
    """Returns the config of a job that reads a trained model.

    What is not given is as it was in training: the module, its parameters,
    the format of the data, the processes. For `evaluate` so are the
    validation data.

    Args:
        command: `evaluate` or `predict`.
        options: Options that were given, by name. `job_dir` is that of the
            training, in which the new job gets a folder, or an export.

    Raises:
        ConfigError: No snapshot or export, no data, or options that do not fit.
    """
    given = dict(options)
    job_dir = os.fspath(given.pop("job_dir", ""))
    restore_from = os.fspath(given.pop("restore_from", ""))
    config = _source(command, job_dir, restore_from).with_options(**given)
    folder = _folder(command, job_dir)
    config = config.with_options(job_dir=folder)
    _check_data(command, config)
    return _with_output(config) if command == "predict" else config


def export_config(options: Mapping[str, Any]) -> JobConfig:
    """Returns the config of an export.

    What is not given is as it was in training: the module and its parameters.

    Args:
        options: Options that were given, by name. `job_dir` is that of the
            training.

    Returns:
        A config whose `restore_from` is a snapshot, every byte of it checked.

    Raises:
        ConfigError: No snapshot, no module, or options that do not fit.
    """
    given = dict(options)
    job_dir = os.fspath(given.pop("job_dir", ""))
    snapshot = snapshot_of(job_dir, given.pop("restore_from", ""))
    config = _untrained("export", _saved(snapshot)).with_options(**given)
    check_output(config.output.output)
    read_formats(config.output.formats)
    locate(config.model)
    parse_params(config.model.model_params)
    return config.with_options(
        job_dir=job_dir,
        output=os.path.abspath(config.output.output),
        restore_from=os.path.abspath(snapshot.path),
    )


def snapshot_of(job_dir: str, restore_from: str = "") -> Snapshot:
    """Returns the snapshot that is meant, every byte of it checked.

    Args:
        job_dir: `--job_dir`.
        restore_from: `--restore_from`, which goes before it.

    Raises:
        ConfigError: None is named, or there is none.
    """
    if not (job_dir or restore_from):
        raise ConfigError(
            "Name the trained job with --job_dir, or a snapshot with "
            "--restore_from. Received: job_dir='', restore_from=''"
        )
    return open_snapshot(restore_from or job_dir)


def _source(command: str, job_dir: str, restore_from: str) -> JobConfig:
    """Returns the config as it was in training, and what is read."""
    # Processes need not be started where this one was.
    path = restore_from or job_dir
    if path and report.is_export(path):
        config = _untrained(command, report.config_of(path))
        return dataclasses.replace(config, export_dir=os.path.abspath(path))
    snapshot = snapshot_of(job_dir, restore_from)
    return _untrained(command, _saved(snapshot)).with_options(
        restore_from=os.path.abspath(snapshot.path)
    )


def _saved(snapshot: Snapshot) -> JobConfig:
    """Returns the config of the job that made a snapshot."""
    return JobConfig.from_json(json.dumps(snapshot.manifest.config))


def _untrained(command: str, saved: JobConfig) -> JobConfig:
    data = dataclasses.replace(
        saved.data,
        training_data="",
        prediction_data="",
        shuffle=DataOptions().shuffle,
    )
    if command == "predict":
        data = dataclasses.replace(data, validation_data="")
    return dataclasses.replace(
        saved,
        data=data,
        training=TrainingOptions(),
        staleness=StalenessOptions(),
        snapshots=SnapshotOptions(),
        # Another job may have the port by now.
        monitoring=dataclasses.replace(saved.monitoring, metrics_port=0),
        output=OutputOptions(),
        job_id="",
        master_address="",
        ps_addresses=(),
    )


def _folder(command: str, job_dir: str) -> str:
    """Returns a folder that is not there yet."""
    # An export stays what it is.
    if os.path.isdir(job_dir) and not report.is_export(job_dir):
        stem = os.path.join(job_dir, f"{command}-")
    else:
        now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        stem = os.path.join(_ROOT, f"{command}-{now}-")
    numbered = (f"{stem}{number}" for number in itertools.count(1))
    return next(path for path in numbered if not os.path.exists(path))


def _check_data(command: str, config: JobConfig) -> None:
    name = "validation_data" if command == "evaluate" else "prediction_data"
    if not getattr(config.data, name):
        raise ConfigError(
            f"No records to {command} on: name files with --{name}. "
            f"Received: {name}=''"
        )


def _with_output(config: JobConfig) -> JobConfig:
    """Says where predictions go that nobody else takes."""
    location = locate(config.model)
    has_processor = any(map(location.defines, _PROCESSORS))
    if config.output.ordered and has_processor:
        # Tasks are handed out in the order of the input.
        config = config.with_options(num_workers=1)
    if config.output.output:
        check_path(config.output.output)
        return config
    if has_processor:
        return config
    output = os.path.join(config.cluster.job_dir, "predictions.npz")
    return config.with_options(output=os.path.abspath(output))
