"""Jobs from Python: the functions that scripts and notebooks call."""

import dataclasses
import json
import os
import pathlib
import shutil
import signal
import sys
import types
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from elastic_keras import preflight, resuming, trained
from elastic_keras.cluster import exits
from elastic_keras.cluster.launcher import JobOutcome
from elastic_keras.cluster.local import LocalLauncher
from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.exports import process as exporting
from elastic_keras.monitoring.progress import make_progress
from elastic_keras.monitoring.report import (
    closing_lines,
    opening_lines,
    reading_lines,
    tensorboard_line,
)
from elastic_keras.predictions import output as predictions
from elastic_keras.predictions import parts
from elastic_keras.predictions.parts import Parts
from elastic_keras.zoo.params import format_params

# Options of the export at the end of a training, beside its folder.
_OF_EXPORT = ("formats", "keras_limit_mb")
Model = str | os.PathLike[str] | types.ModuleType
Data = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class JobFailed(RuntimeError):  # noqa: N818 - reads as what happened
    """A job ended by the user's own exception, or by a crash.

    Args:
        message: The user's traceback, or what crashed.
        exit_code: What `elastic_keras train` would have exited with.
        job_dir: The job directory.
    """

    def __init__(self, message: str, exit_code: int, job_dir: str) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.job_dir = job_dir


@dataclasses.dataclass(frozen=True)
class Result:
    """What a job left in result.json.

    Args:
        status: `succeeded`.
        job_dir: The job directory.
        steps: Steps trained.
        epochs: Passes over the training data.
        records_trained: Records in applied batches.
        records_expected: Records times epochs.
        examples_trained: What `dataset_fn` made of the records.
        bad_records: Broken records that were skipped, once an epoch.
        ended_by: `epochs`, `max_steps`, `early_stopping` or `callback`.
        seconds: How long the job took.
        examples_per_second: Over the whole training.
        evaluation: Last value of each evaluation metric, by name.
        evaluations: Every evaluation: `step` (updates before it), `epoch`
            (from 1) and `values` by metric.
        history: Training metrics of every epoch: `step` (batches before
            it was over), `epoch` and `values`.
        staleness: `max`, `mean` and `histogram` of applied pushes.
        shards: `rows`, `bytes`, `version` and `tables` of each shard.
        restarts: Restarts by role.
    """

    status: str
    job_dir: str
    steps: int = 0
    epochs: int = 0
    records_trained: int = 0
    records_expected: int = 0
    examples_trained: int = 0
    bad_records: int = 0
    ended_by: str = ""
    seconds: float = 0.0
    examples_per_second: float = 0.0
    evaluation: dict[str, float] = dataclasses.field(default_factory=dict)
    evaluations: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    staleness: dict[str, Any] = dataclasses.field(default_factory=dict)
    shards: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    restarts: dict[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def load(cls, job_dir: str | os.PathLike[str]) -> "Result":
        """Reads the result of a job that has ended.

        Args:
            job_dir: Its directory.

        Raises:
            ConfigError: There is no result.

        Example:
            >>> import elastic_keras as ek
            >>> result = ek.Result.load("runs/clicks")
            >>> result.status, result.ended_by
            ('succeeded', 'epochs')
        """
        raw = read_result(job_dir)
        known = {field.name for field in dataclasses.fields(cls)}
        values = {name: raw[name] for name in raw if name in known}
        return cls(**{**values, "job_dir": str(job_dir)})


def train(
    model: Model = "", *, training_data: Data = "", **options: Any
) -> Result:
    """Trains a model-zoo module, as `elastic_keras train` does.

    Args:
        model: Path of a module (`model_zoo/criteo/deepfm.py`), an imported
            module, or a dotted name that goes with `model_zoo=`.
        training_data: Files or globs, one or several.
        **options: Any option of `elastic_keras train --help` by its name;
            `model_params` may be a dict, data several paths.

    Returns:
        The result; its `job_dir` holds everything else.

    Raises:
        ConfigError: Wrong use: an option, a path, the module's contract.
        JobFailed: The user's own exception (its text is their traceback).
        KeyboardInterrupt: The job was interrupted, and stopped in order.

    Example:
        Wrong use is told before anything is started:

        >>> import elastic_keras as ek
        >>> ek.train("clicks.py", training_data="week_*.csv")
        Traceback (most recent call last):
        ...
        elastic_keras.config.ConfigError: No such file. Received: ...
    """
    values = _plain({**options, "training_data": training_data})
    config = resuming.training_config({**_model_options(model), **values})
    outcome = run_training(config)
    _raise_unless_succeeded(outcome)
    return Result.load(outcome.job_dir)


def evaluate(
    job_dir: str | os.PathLike[str] = "",
    *,
    validation_data: Data = "",
    **options: Any,
) -> dict[str, float]:
    """Evaluates a trained model, as `elastic_keras evaluate` does.

    Args:
        job_dir: The directory of the job that trained it, whose newest
            snapshot is read; or an export.
        validation_data: Files or globs; by default the job's own.
        **options: Any option of `elastic_keras evaluate --help`.

    Returns:
        Value by metric.

    Raises:
        ConfigError: Wrong use: an option, a path, the module's contract.
        JobFailed: The user's own exception (its text is their traceback).
        KeyboardInterrupt: The job was interrupted, and stopped in order.
    """
    values = _plain({**options, "validation_data": validation_data})
    config = trained.config_for("evaluate", {**values, "job_dir": job_dir})
    outcome = run_reading(config)
    _raise_unless_succeeded(outcome)
    return dict(read_result(outcome.job_dir)["evaluation"])


def predict(
    job_dir: str | os.PathLike[str] = "",
    *,
    prediction_data: Data = "",
    **options: Any,
) -> Any:
    """Predicts with a trained model, as `elastic_keras predict` does.

    Args:
        job_dir: The directory of the job that trained it, whose newest
            snapshot is read; or an export.
        prediction_data: Files or globs.
        **options: Any option of `elastic_keras predict --help`.

    Returns:
        An array of the model's outputs in the order of the input, or arrays
        by name if there are several; `None` where `output=` names a file or
        the module has a `prediction_outputs_processor`.

    Raises:
        ConfigError: Wrong use: an option, a path, the module's contract.
        JobFailed: The user's own exception (its text is their traceback).
        KeyboardInterrupt: The job was interrupted, and stopped in order.
    """
    values = _plain({**options, "prediction_data": prediction_data})
    config = trained.config_for("predict", {**values, "job_dir": job_dir})
    outcome = run_reading(config)
    _raise_unless_succeeded(outcome)
    if values.get("output") or not config.output.output:
        return None
    with np.load(config.output.output) as file:
        arrays = dict(file)
    return arrays["predictions"] if list(arrays) == ["predictions"] else arrays


def export(
    job_dir: str | os.PathLike[str] = "",
    *,
    output: str | os.PathLike[str],
    formats: str | Iterable[str] = "",
    **options: Any,
) -> dict[str, Any]:
    """Exports a trained model, as `elastic_keras export` does.

    Args:
        job_dir: The directory of the job that trained it; its newest
            snapshot is read.
        output: A new folder.
        formats: Some of `keras`, `saved_model` and `embeddings`; by default
            all of them.
        **options: Any option of `elastic_keras export --help`.

    Returns:
        What export.json says; `notes` tells what is missing.

    Raises:
        ConfigError: Wrong use: an option, a path, the module's contract.
        JobFailed: The user's own exception (its text is their traceback).
        KeyboardInterrupt: The export was interrupted.
    """
    if not isinstance(formats, str):
        formats = ",".join(formats)
    values = _plain({**options, "output": output, "formats": formats})
    config = trained.export_config({**values, "job_dir": job_dir})
    _raise_unless_succeeded(run_export(config))
    return exporting.read_report(config.output.output)


def _plain(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns options as their flags have them; empty ones are left out."""
    given = {name: plain_value(name, v) for name, v in options.items()}
    return {name: value for name, value in given.items() if value != ""}


def _raise_unless_succeeded(outcome: JobOutcome) -> None:
    if outcome.status == "succeeded":
        return
    if outcome.exit_code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if outcome.exit_code > 128:
        raise SystemExit(outcome.exit_code)
    if outcome.exit_code == exits.WRONG_USE:
        raise ConfigError(outcome.error)
    raise JobFailed(outcome.error, outcome.exit_code, outcome.job_dir)


def run_training(config: JobConfig) -> JobOutcome:
    """Runs a training job to its end and prints its closing lines.

    Args:
        config: The job.

    Raises:
        ConfigError: The job cannot start.
    """
    if resuming.is_finished(config):
        job_dir = os.path.abspath(config.cluster.job_dir)
        print(
            "elastic_keras: This training is finished. To train further, "
            "begin another job with --restore_from. "
            f"Received: job_dir={config.cluster.job_dir!r}",
            file=sys.stderr,
        )
        return JobOutcome(job_dir, "succeeded")
    preflight.check(config)
    for line in preflight.warnings(config):
        print(f"elastic_keras: warning: {line}", file=sys.stderr)
    progress = make_progress(config.monitoring.progress)
    try:
        for line in opening_lines(config.data):
            progress.say(line)
        outcome = LocalLauncher().run(
            config,
            progress.update,
            lambda job_dir: progress.say(tensorboard_line(job_dir)),
        )
    finally:
        progress.close()
    if config.monitoring.progress != "none":
        result = read_result(outcome.job_dir)
        print("\n".join(closing_lines(result, outcome.job_dir)), flush=True)
    if config.output.output and outcome.status == "succeeded":
        return _export_trained(config, outcome)
    return outcome


def _export_trained(config: JobConfig, outcome: JobOutcome) -> JobOutcome:
    """Exports what a training left; returns how both ended."""
    made = dataclasses.asdict(config.output)
    options = {name: made[name] for name in ("output", *_OF_EXPORT)}
    try:
        exported = run_export(
            trained.export_config({**options, "job_dir": outcome.job_dir})
        )
    except ConfigError as error:
        exported = JobOutcome("", "failed", exits.WRONG_USE, str(error))
    said = exported.error
    if exported.exit_code == exits.WRONG_USE:
        said = (
            f"The model is trained, but not exported: {said}\nTo try again: "
            f"elastic_keras export --job_dir={outcome.job_dir}"
        )
    return dataclasses.replace(exported, job_dir=outcome.job_dir, error=said)


def run_export(config: JobConfig) -> JobOutcome:
    """Exports a trained model and says what was written.

    Args:
        config: See `trained.export_config`.
    """
    outcome = exporting.run(config)
    if outcome.status == "succeeded" and config.monitoring.progress != "none":
        said = exporting.read_report(config.output.output)
        lines = exporting.report_lines(said, config.output.output)
        print("\n".join(lines), flush=True)
    return outcome


def run_reading(config: JobConfig) -> JobOutcome:
    """Runs an evaluation or a prediction to its end.

    Args:
        config: The job, see `trained.config_for`.

    Raises:
        ConfigError: The job cannot start.
    """
    preflight.check(config)
    progress = make_progress(config.monitoring.progress)
    try:
        outcome = LocalLauncher().run(config, progress.update)
        if outcome.status == "succeeded" and config.output.output:
            _gather(outcome.job_dir, config.output.output)
    finally:
        progress.close()
    if config.monitoring.progress != "none":
        result = read_result(outcome.job_dir)
        lines = reading_lines(result, outcome.job_dir, config.output.output)
        print("\n".join(lines), flush=True)
    return outcome


def _gather(job_dir: str, output: str) -> None:
    """Makes one file of the parts that workers wrote."""
    try:
        predictions.write(Parts(job_dir), output)
    except OSError as error:
        raise ConfigError(
            f"The predictions cannot be written: {error.strerror}; they are "
            f"still in {os.path.join(job_dir, parts.FOLDER)}. "
            f"Received: output={output!r}"
        ) from error
    shutil.rmtree(os.path.join(job_dir, parts.FOLDER), ignore_errors=True)


def read_result(job_dir: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads JOB_DIR/result.json.

    Args:
        job_dir: The job directory.

    Raises:
        ConfigError: There is none, or it cannot be read.
    """
    path = pathlib.Path(job_dir) / "result.json"
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise ConfigError(
            f"There is no result of a job: {error}. "
            f"Received: job_dir={str(job_dir)!r}"
        ) from error


def _model_options(model: Model) -> dict[str, str]:
    """Returns --model_zoo and --model_def for what `train` was given."""
    if isinstance(model, types.ModuleType):
        if not getattr(model, "__file__", None):
            raise ConfigError(
                "A module must come from a file: workers import it on their "
                f"own. Received: model={model.__name__!r}"
            )
        model = str(model.__file__)
    text = os.fspath(model)
    return {"model_def": text} if text else {}


def plain_value(name: str, value: Any) -> Any:
    """Returns an option's value as its flag would have it."""
    if name == "model_params" and isinstance(value, Mapping):
        return format_params(dict(value))
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, str) or not name.endswith("_data"):
        return value
    if isinstance(value, Iterable):
        paths = [os.fspath(item) for item in value]
        _check_commas(name, paths)
        return ",".join(paths)
    return value


def _check_commas(name: str, paths: list[str]) -> None:
    for path in paths:
        if "," in path and len(paths) > 1:
            raise ConfigError(
                "A comma separates files; where one is part of a name, put ? "
                f"in its place. Received: {name}={path!r}"
            )
