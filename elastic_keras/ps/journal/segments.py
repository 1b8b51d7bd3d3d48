"""The files of a journal: JOB_DIR/journal/ps-I/segment-NNNNNN."""

import dataclasses
import json
import os
import pathlib
import re

from elastic_keras.ps.journal.records import (
    CorruptRecordError,
    Kind,
    Record,
    TornRecordError,
    array_text,
    read,
)

FOLDER = "journal"
_NAME = re.compile(r"segment-(\d+)")


@dataclasses.dataclass(frozen=True)
class Begin:
    """What a segment says of itself in its first record.

    Args:
        job_id: The job.
        shard: The shard.
        num_shards: Number of shards of the job.
        number: The segment's number; the next one's is one more.
        is_first: It continues no cut, but what a shard was started with.
        snapshot: With `is_first`: the snapshot that the shard was started
            with, if any.
        ledger: The shard went on with that snapshot's ledger.
        members: And with its members.
    """

    job_id: str
    shard: int
    num_shards: int
    number: int
    is_first: bool = False
    snapshot: str = ""
    ledger: bool = False
    members: bool = False

    def to_json(self) -> str:
        """Returns the text in the record."""
        return json.dumps(dataclasses.asdict(self))


def begin_of(record: Record) -> Begin:
    """Reads a segment's first record.

    Raises:
        CorruptRecordError: It is none.
    """
    if record.kind is not Kind.BEGIN:
        raise CorruptRecordError("a segment begins with another record")
    try:
        return Begin(**json.loads(array_text(record.arrays[0])))
    except (ValueError, TypeError, IndexError) as error:
        raise CorruptRecordError(f"a segment's beginning: {error}") from error


@dataclasses.dataclass(frozen=True)
class Segment:
    """A segment on disk.

    Args:
        path: Its file.
        begin: What it says of itself.
    """

    path: pathlib.Path
    begin: Begin

    @property
    def number(self) -> int:
        """Its number."""
        return self.begin.number

    @property
    def is_broken(self) -> bool:
        """Whether records that belong to its end could not be written."""
        return mark_of(self.path).exists()


def folder_of(job_dir: str | pathlib.Path, shard: int) -> pathlib.Path:
    """Returns the folder of a shard's journal."""
    return pathlib.Path(job_dir, FOLDER, f"ps-{shard}")


def path_of(folder: pathlib.Path, number: int) -> pathlib.Path:
    """Returns a segment's path."""
    return folder / f"segment-{number:06d}"


def mark_of(path: pathlib.Path) -> pathlib.Path:
    """Returns the file that marks a segment as broken."""
    return path.with_suffix(".broken")


def numbers(folder: pathlib.Path) -> list[int]:
    """Returns the numbers of all segment files, ascending."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    matches = (_NAME.fullmatch(name) for name in names)
    return sorted(int(match[1]) for match in matches if match)


def of_job(folder: pathlib.Path, job_id: str, num_shards: int) -> list[Segment]:
    """Returns the segments of a job that follow one another, to the last.

    Args:
        folder: The folder of a shard's journal.
        job_id: The job.
        num_shards: Number of shards of the job.

    Returns:
        Ascending; empty if there are none. A segment that cannot be read
        ends the row: what lies before it is left out.
    """
    found: list[Segment] = []
    for number in reversed(numbers(folder)):
        if found and found[0].number != number + 1:
            break
        path = path_of(folder, number)
        try:
            with open(path, "rb") as file:
                begin = begin_of(next(read(file)))
        except (StopIteration, TornRecordError):
            if found:
                break
            # Killed while it began its last segment: nothing is in it.
            continue
        except (OSError, CorruptRecordError):
            break
        if (begin.job_id, begin.num_shards) != (job_id, num_shards):
            break
        found.insert(0, Segment(path, begin))
        if begin.is_first:
            break
    return found
