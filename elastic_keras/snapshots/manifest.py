"""What a snapshot says of itself: manifest.json."""

import dataclasses
import json
from typing import Any

from elastic_keras.signature import ModelSignature
from elastic_keras.snapshots.errors import SnapshotError

FORMAT = 1


@dataclasses.dataclass(frozen=True)
class FileEntry:
    """A file of a snapshot.

    Args:
        name: Its name in the snapshot's folder.
        bytes: Its size.
        crc32c: The CRC32C of its bytes.
    """

    name: str
    bytes: int
    crc32c: int


@dataclasses.dataclass(frozen=True)
class TableEntry:
    """What one shard holds of a table.

    Args:
        rows: Number of rows.
        parts: Files, each with `ids`, `weights` and `slot/...` of some rows.
    """

    rows: int
    parts: tuple[FileEntry, ...]


@dataclasses.dataclass(frozen=True)
class ShardEntry:
    """What one shard holds.

    Args:
        version: Pushes that it had applied.
        iterations: Optimizer updates that it had made.
        learning_rates: Rates that were set by hand: (optimizer, rate).
        dense: File with `values`, `states` and `slot/...`, in routing order.
        tables: One entry for each table of the model.
        books: File with the ledger, the members and what is buffered; none
            in a snapshot by an older version.
        segment: The segment of the shard's journal that continues it; -1 if
            there is none.
    """

    version: int
    iterations: int
    learning_rates: tuple[tuple[int, float], ...]
    dense: FileEntry
    tables: tuple[TableEntry, ...]
    books: FileEntry | None = None
    segment: int = -1

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """All files of the shard."""
        parts = (part for table in self.tables for part in table.parts)
        books = () if self.books is None else (self.books,)
        return (self.dense, *books, *parts)

    def to_json(self) -> str:
        """Returns the text that a shard answers the master with."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ShardEntry":
        """Reads what `to_json` wrote.

        Raises:
            SnapshotError: It is none.
        """
        with _readable("a shard's entry"):
            return _shard(json.loads(text))


@dataclasses.dataclass(frozen=True)
class Manifest:
    """A snapshot of a model: a cut of all shards at the same step.

    Args:
        job_id: The job that made it.
        step: Optimizer updates that every shard had made.
        epoch: Epochs begun.
        signature: The model.
        config: The job's config, as `JobConfig.to_json` has it.
        shards: One entry for each shard.
    """

    job_id: str
    step: int
    epoch: int
    signature: ModelSignature
    config: dict[str, Any]
    shards: tuple[ShardEntry, ...]

    def to_json(self) -> str:
        """Returns the text of manifest.json."""
        return json.dumps(
            {"format": FORMAT, **dataclasses.asdict(self)}, indent=1
        )

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """Reads what `to_json` wrote.

        Raises:
            SnapshotError: It is none, or of another format.
        """
        with _readable("a snapshot's manifest"):
            raw = json.loads(text)
            if raw["format"] != FORMAT:
                raise SnapshotError(
                    f"This version reads snapshots of format {FORMAT}. "
                    f"Received: format={raw['format']!r}"
                )
            return cls(
                job_id=raw["job_id"],
                step=raw["step"],
                epoch=raw["epoch"],
                signature=ModelSignature.from_json(
                    json.dumps(raw["signature"])
                ),
                config=raw["config"],
                shards=tuple(map(_shard, raw["shards"])),
            )


class _readable:  # noqa: N801 - reads as a statement
    """Turns what is raised by an unreadable text into `SnapshotError`."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, SnapshotError):
            return
        if isinstance(error, (KeyError, TypeError, ValueError, RecursionError)):
            raise SnapshotError(f"Not {self._what}: {error!r}") from error


def _shard(raw: dict[str, Any]) -> ShardEntry:
    return ShardEntry(
        version=raw["version"],
        iterations=raw["iterations"],
        learning_rates=tuple(
            (int(number), float(rate)) for number, rate in raw["learning_rates"]
        ),
        dense=FileEntry(**raw["dense"]),
        tables=tuple(
            TableEntry(
                rows=table["rows"],
                parts=tuple(FileEntry(**part) for part in table["parts"]),
            )
            for table in raw["tables"]
        ),
        books=FileEntry(**raw["books"]) if raw.get("books") else None,
        segment=raw.get("segment", -1),
    )
