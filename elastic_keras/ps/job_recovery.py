"""A snapshot out of what a job's shards left when it crashed."""

import dataclasses
import json
import logging
import pathlib
import shutil
from collections.abc import Sequence

from elastic_keras.config import JobConfig
from elastic_keras.ps import recovery
from elastic_keras.ps.answers import Outcome
from elastic_keras.ps.journal import segments as files
from elastic_keras.ps.journal.records import CorruptRecordError, Kind
from elastic_keras.ps.log import push_of
from elastic_keras.ps.push import Push
from elastic_keras.ps.recovery import Base
from elastic_keras.ps.replay import End, Repeater, records
from elastic_keras.ps.shard import Shard
from elastic_keras.snapshots.errors import SnapshotError
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.manifest import Manifest, ShardEntry
from elastic_keras.snapshots.snapshot import Snapshot

_LOGGER = logging.getLogger(__name__)
_Key = tuple[int, int, int]


def recover(
    job_dir: str | pathlib.Path, *, keep_journals: bool = False
) -> pathlib.Path | None:
    """Makes a snapshot of the batches that every shard of a job has.

    To be called while no process of the job is alive. The newest snapshot
    that all journals continue is taken, and from the journals the batches
    that all shards have; the others are in no ledger, so that a job that
    goes on from here trains them again. It may have any number of shards,
    and needs a job id of its own: the journals are another job's then.

    Args:
        job_dir: The job's directory, with its config.json.
        keep_journals: Leave the journals, of which the snapshot has all
            that can be used.

    Returns:
        The newest snapshot: the one made, or the one that was there if no
        journal adds a batch; `None` if the job left neither.

    Raises:
        ConfigError: There is no config.json.
        SnapshotError: A snapshot that the job began with cannot be read.
        OSError: The snapshot cannot be written.
    """
    job_dir = pathlib.Path(job_dir)
    path = job_dir / "config.json"
    try:
        config = JobConfig.from_json(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise SnapshotError(
            f"No job left its config.json there: {error}. "
            f"Received: job_dir={str(job_dir)!r}"
        ) from error
    made = _recover(config, job_dir)
    if not keep_journals:
        shutil.rmtree(job_dir / files.FOLDER, ignore_errors=True)
    return made


def _recover(config: JobConfig, job_dir: pathlib.Path) -> pathlib.Path | None:
    bases = _bases(config, job_dir)
    if not bases:
        return _newest(job_dir)
    keys = frozenset.intersection(*map(_keys, bases))
    return _write(config, job_dir, bases, keys) if keys else _newest(job_dir)


def _newest(job_dir: pathlib.Path) -> pathlib.Path | None:
    try:
        return SnapshotFolder(job_dir).newest().path
    except SnapshotError:
        return None


def _bases(config: JobConfig, job_dir: pathlib.Path) -> list[Base]:
    """Returns what each shard goes on from: all from the same moment.

    Empty if there is no such moment.
    """
    count = len(config.ps_addresses)
    journals = [
        files.of_job(files.folder_of(job_dir, index), config.job_id, count)
        for index in range(count)
    ]
    for path in reversed(SnapshotFolder(job_dir).all()):
        try:
            snapshot = Snapshot(path)
            if snapshot.manifest.job_id != config.job_id:
                continue
            if snapshot.num_shards != count:
                continue
            bases = [
                recovery.continuing(path, entry, journal)
                for entry, journal in zip(
                    snapshot.manifest.shards, journals, strict=True
                )
            ]
            if not all(base is not None for base in bases):
                continue
            snapshot.check()
        except SnapshotError as error:
            _LOGGER.warning("Passed over: %s", error)
            continue
        return [base for base in bases if base is not None]
    if all(journal and journal[0].begin.is_first for journal in journals):
        return [recovery.from_first(journal) for journal in journals]
    return []


def _keys(base: Base) -> frozenset[_Key]:
    """Returns the batches that a journal adds."""
    keys: set[_Key] = set()
    for record in records(base.segments, End()):
        if record.kind is Kind.PUSH:
            try:
                push, outcome, _ = push_of(record)
            except CorruptRecordError:
                break
            if outcome in (Outcome.APPLIED, Outcome.NONFINITE):
                keys.add(push.key)
    return frozenset(keys)


def _write(
    config: JobConfig,
    job_dir: pathlib.Path,
    bases: Sequence[Base],
    keys: frozenset[_Key],
) -> pathlib.Path:
    folder = SnapshotFolder(job_dir)
    place = folder.begin(0)
    entries: list[ShardEntry] = []
    epochs = 0
    for index, base in enumerate(bases):
        # One at a time in memory.
        shard = _shard(config, index, base, keys)
        epochs = 1 + max(shard.report().examples_by_epoch, default=-1)
        signature, entry = shard.write(place)
        entries.append(entry)
    manifest = Manifest(
        job_id=config.job_id,
        step=max(entry.iterations for entry in entries),
        epoch=epochs,
        signature=signature,
        config=json.loads(config.to_json()),
        shards=tuple(entries),
    )
    return folder.commit(place, manifest)


def _shard(
    config: JobConfig, index: int, base: Base, keys: frozenset[_Key]
) -> Shard:
    """Returns a shard with the batches of its base and these."""

    def keep(push: Push) -> bool:
        return push.key in keys

    shard = Shard(index, len(config.ps_addresses), config.staleness)
    recovery.take(shard, dataclasses.replace(base, members=False))
    end = Repeater(shard, keep).repeat(base.segments)
    if end.loss:
        _LOGGER.warning("Shard %d has lost %s", index, end.loss)
    # A new job may have other shards, whose pushes are other parts.
    shard.flush()
    return shard
