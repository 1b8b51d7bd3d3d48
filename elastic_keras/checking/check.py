"""Checks a model-zoo module: its contract, its data and its steps."""

import dataclasses
import shlex
import sys
from collections.abc import Callable, Iterable
from typing import Any

import keras
import tensorflow as tf

from elastic_keras import preflight
from elastic_keras.checking import report
from elastic_keras.checking.blame import Blame
from elastic_keras.checking.first_look import DATA
from elastic_keras.checking.regrets import regrets
from elastic_keras.checking.trial import Trial
from elastic_keras.config import DataOptions, JobConfig, ModelOptions
from elastic_keras.worker import callbacks as job_callbacks
from elastic_keras.zoo.location import locate
from elastic_keras.zoo.module import ZooModule, load
from elastic_keras.zoo.outline import read_outline

Say = Callable[[str], None]


def check(config: JobConfig, say: Say = print) -> None:
    """Tries a module on one batch in this process, without any server.

    Args:
        config: The job that the module is for. Without data, only what
            needs none is checked; a mode without data of its own runs on the
            training data.
        say: Takes the lines of the report.

    Raises:
        ConfigError: What would end a job as wrong use, with the lines of the
            module that it is about.
        UserCodeError: The module's own exception.
    """
    location = locate(config.model)
    outline = read_outline(location.path, location.root)
    path = report.short_path(location.path)
    lines = outline.contract()
    if location.model in outline.lines:
        # A Model subclass may stand for it.
        lines["custom_model"] = outline.lines[location.model]
    blame = Blame(path, lines)
    say(report.row("module", path))
    keras.utils.set_random_seed(config.model.seed)
    if config.model.deterministic:
        tf.config.experimental.enable_op_determinism()
    with blame.mentioned():
        zoo = load(config.model)
        callbacks = job_callbacks.check(zoo.callbacks())
        zoo.prediction_outputs_processor()
    say(report.row("contract", report.contract(lines)))
    if not config.data.training_data:
        _check_without_data(config, zoo, blame, say)
        _warn(preflight.warnings(config))
        return
    trial = Trial(_with_all_data(config), zoo, blame)
    trial.read()
    say(report.row("batch", report.batch(trial.sample)))
    trial.build(callbacks)
    for line in report.parameters(trial.prepared.signature, trial.batch):
        say(line)
    trial.train()
    say(report.row("train", f"loss {trial.loss:.6g}"))
    trial.evaluate()
    say(report.row("evaluate", report.values(trial.values)))
    trial.predict()
    say(report.row("predict", report.specs(trial.predictions)))
    _warn([*preflight.warnings(config), *regrets(trial)])
    flags = _flags(config.model, config.data)
    say(f"{path} is ready: elastic_keras train {flags}")


def _with_all_data(config: JobConfig) -> JobConfig:
    """Gives each mode data: those of training where it has none."""
    data = config.data
    filled: dict[str, Any] = {
        name: getattr(data, name) or data.training_data for name in DATA
    }
    return dataclasses.replace(config, data=dataclasses.replace(data, **filled))


def _check_without_data(
    config: JobConfig, zoo: ZooModule, blame: Blame, say: Say
) -> None:
    with blame.mentioned():
        zoo.custom_model()
        zoo.optimizer()
        zoo.eval_metrics_fn()
    say(
        "The contract is kept. To try the module on a batch: elastic_keras "
        f"zoo check {_flags(config.model)} --training_data=FILES"
    )


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        print(f"elastic_keras: warning: {warning}", file=sys.stderr)


def _flags(*groups: ModelOptions | DataOptions) -> str:
    """Returns the flags that a job takes over from the check."""
    words = []
    for group in groups:
        for field in dataclasses.fields(group):
            value = getattr(group, field.name)
            if value == field.default or field.name == "prediction_data":
                continue
            if isinstance(value, bool):
                words.append(f"--{'' if value else 'no'}{field.name}")
            else:
                words.append(f"--{field.name}={shlex.quote(str(value))}")
    return " ".join(words)
