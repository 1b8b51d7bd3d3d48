"""The config of a training: a new one, or one that goes on."""

import os
from collections.abc import Mapping
from typing import Any

from elastic_keras.cluster.arguments import read_config
from elastic_keras.cluster.job_directory import JobDirectory
from elastic_keras.config import ConfigError, JobConfig, all_options
from elastic_keras.master import state_file
from elastic_keras.snapshots.folder import open_snapshot

# What the rest of a training may do otherwise than its beginning did.
_GROUPS = ("wire", "cluster", "monitoring", "output")
_OPTIONS = (
    "num_epochs",
    "max_steps",
    "evaluation_steps",
    "early_stopping_patience",
    "max_nonfinite_pushes",
    "snapshot_steps",
    "snapshot_secs",
    "journal_max_mb",
    "keep_snapshots",
)
# The parameters lie where they lie.
_FIXED = ("num_ps",)


def training_config(options: Mapping[str, Any]) -> JobConfig:
    """Returns the config of a training.

    Where `job_dir` holds a training it goes on: what is not given is as it
    was. With `restore_from` a new job goes on where that snapshot was taken,
    on any number of shards.

    Args:
        options: Options that were given, by name.

    Returns:
        The config; its `job_id` is that of the training that goes on, and
        empty for a new one.

    Raises:
        ConfigError: An option that is unknown, out of range, or cannot
            change any more.
    """
    given = dict(options)
    job_dir = os.fspath(given.get("job_dir", ""))
    if job_dir and holds_training(job_dir):
        saved = read_config(job_dir)
        config = _changed(saved, given, _FIXED, "The job has begun with")
        return config.with_options(job_dir=job_dir)
    if not given.get("restore_from"):
        return JobConfig.from_options(**given)
    snapshot = open_snapshot(given.pop("restore_from"))
    saved = JobConfig.from_options(
        **_options(snapshot.manifest.config), job_dir=""
    )
    config = _changed(saved, given, (), "The snapshot's job had")
    return config.with_options(restore_from=os.path.abspath(snapshot.path))


def holds_training(job_dir: str) -> bool:
    """Returns whether a folder is that of a training that has begun."""
    paths = (os.path.join(job_dir, n) for n in ("config.json", state_file.NAME))
    if not all(map(os.path.isfile, paths)):
        return False
    return read_config(job_dir).command == "train"


def is_finished(config: JobConfig) -> bool:
    """Returns whether a training that would go on has come to its end.

    Args:
        config: What `training_config` returned.
    """
    if not config.job_id:
        return False
    result = JobDirectory(config.cluster.job_dir).read_result()
    return result is not None and result.get("status") == "succeeded"


def _changed(
    saved: JobConfig,
    given: Mapping[str, Any],
    fixed: tuple[str, ...],
    known: str,
) -> JobConfig:
    config = saved.with_options(**given)
    for group, field in all_options():
        name = field.name
        free = group in _GROUPS or name in _OPTIONS
        if name not in given or (free and name not in fixed):
            continue
        before = getattr(getattr(saved, group), name)
        now = getattr(getattr(config, group), name)
        if now != before:
            raise ConfigError(
                f"--{name} cannot change while a training goes on; begin a "
                f"new one in another --job_dir. {known} {name}={before!r}. "
                f"Received: {name}={now!r}"
            )
    return config


def _options(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options in a config that was written down."""
    names = {field.name: group for group, field in all_options()}
    found = {
        name: raw[group][name]
        for name, group in names.items()
        if name in raw.get(group, {})
    }
    for name in ("job_dir", "restore_from", "output", "port", "metrics_port"):
        found.pop(name, None)
    return found
