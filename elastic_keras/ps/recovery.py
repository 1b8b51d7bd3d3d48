"""How a shard that is started again becomes what it was."""

import dataclasses
import logging
import pathlib
from collections.abc import Sequence

from elastic_keras.config import JobConfig
from elastic_keras.ps.journal import segments as files
from elastic_keras.ps.journal.journal import Journal
from elastic_keras.ps.journal.segments import Begin, Segment
from elastic_keras.ps.replay import End, Repeater
from elastic_keras.ps.shard import Shard
from elastic_keras.snapshots.errors import SnapshotError
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.manifest import ShardEntry
from elastic_keras.snapshots.snapshot import Snapshot

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Restored:
    """What a shard took over when it was started.

    Args:
        pushes: Pushes from the journal.
        loss: What it could not; empty if it has every push that was
            acknowledged.
    """

    pushes: int = 0
    loss: str = ""


@dataclasses.dataclass(frozen=True)
class Base:
    """What a shard begins with.

    Args:
        snapshot: The snapshot's path; empty for nothing.
        ledger: Go on with its ledger.
        members: And with its members.
        segments: The journal since then, ascending.
    """

    snapshot: str = ""
    ledger: bool = False
    members: bool = False
    segments: tuple[Segment, ...] = ()


def restore(shard: Shard, config: JobConfig, job_dir: str) -> Restored:
    """Brings a shard to where the process before it was, and begins to log.

    Of the job's snapshots the newest is taken whose files are good and that
    the journal continues; then the journal is repeated. A job's first
    process begins with `--restore_from`, or with nothing.

    Args:
        shard: A new shard; nobody calls it yet.
        config: The job, of command `train`.
        job_dir: Its directory.

    Returns:
        What was taken over.

    Raises:
        SnapshotError: The snapshot of `--restore_from` cannot be read.
    """
    folder = files.folder_of(job_dir, shard.index)
    segments = files.of_job(folder, config.job_id, shard.num_shards)
    own = _of_snapshots(job_dir, config.job_id, shard, segments)
    if own is None and segments and segments[0].begin.is_first:
        own = from_first(segments)
    loss = ""
    if own is None:
        own = _of_snapshots(job_dir, config.job_id, shard, ())
        if own is not None:
            loss = f"what was pushed after {own.snapshot} was taken"
        elif segments:
            loss = "everything: there is no snapshot that can be read"
    base = own or Base(
        config.snapshots.restore_from, ledger=True, members=False
    )
    take(shard, base)
    repeater = Repeater(shard)
    end = repeater.repeat(base.segments)
    loss = loss or end.loss
    if loss:
        shard.count_lost()
        _LOGGER.warning("Shard %d has lost %s", shard.index, loss)
    if config.snapshots.journal:
        shard.write_to(_continued(shard, config, folder, base, end))
    if own is not None:
        _LOGGER.info(
            "shard %d restored version %d: %s and %d pushes of the journal",
            shard.index,
            shard.version,
            base.snapshot or "no snapshot",
            repeater.pushes,
        )
    return Restored(repeater.pushes, loss)


def take(shard: Shard, base: Base) -> None:
    """Lets a shard take over the snapshot of a base.

    Raises:
        SnapshotError: It cannot be read.
    """
    if base.snapshot:
        shard.restore(
            Snapshot(base.snapshot),
            training=True,
            ledger=base.ledger,
            members=base.members,
        )


def _of_snapshots(
    job_dir: str, job_id: str, shard: Shard, segments: Sequence[Segment]
) -> Base | None:
    """Returns the newest snapshot that segments continue.

    Args:
        job_dir: The job's directory.
        job_id: The job.
        shard: The shard.
        segments: The segments; none for a snapshot alone.
    """
    for path in reversed(SnapshotFolder(job_dir).all()):
        try:
            snapshot = Snapshot(path)
            manifest = snapshot.manifest
            if manifest.job_id != job_id:
                continue
            if snapshot.num_shards != shard.num_shards:
                continue
            base: Base | None = Base(str(path), True, True)
            if segments:
                entry = manifest.shards[shard.index]
                base = continuing(path, entry, segments)
            if base is None:
                continue
            snapshot.check_shard(shard.index)
        except SnapshotError as error:
            _LOGGER.warning("Passed over: %s", error)
            continue
        return base
    return None


def continuing(
    snapshot: pathlib.Path, entry: ShardEntry, segments: Sequence[Segment]
) -> Base | None:
    """Returns a snapshot with what a shard's journal adds to it.

    Args:
        snapshot: The snapshot's path.
        entry: What it says of the shard.
        segments: The journal's segments.

    Returns:
        `None` if none of them continues the snapshot.
    """
    for place, segment in enumerate(segments):
        if segment.number == entry.segment:
            return Base(str(snapshot), True, True, tuple(segments[place:]))
    return None


def from_first(segments: Sequence[Segment]) -> Base:
    """Returns what the first process of a shard began with, and the rest."""
    begin = segments[0].begin
    return Base(begin.snapshot, begin.ledger, begin.members, tuple(segments))


def _continued(
    shard: Shard,
    config: JobConfig,
    folder: pathlib.Path,
    base: Base,
    end: End,
) -> Journal:
    """Returns the journal, ready for what comes after the replay."""
    if base.segments:
        last = base.segments[end.segment]
        if end.torn_bytes:
            _LOGGER.warning(
                "Cut off: a record of which only %d bytes were written. "
                "Received: %r",
                end.torn_bytes,
                str(last.path),
            )
        return Journal(
            folder, last.begin, sequence=end.sequence, go_on_at=end.offset
        )
    begin = Begin(
        config.job_id,
        shard.index,
        shard.num_shards,
        max(files.numbers(folder), default=-1) + 1,
        is_first=True,
        snapshot=base.snapshot,
        ledger=base.ledger,
        members=base.members,
    )
    return Journal(folder, begin)
