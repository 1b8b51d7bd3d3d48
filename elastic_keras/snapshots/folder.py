"""The snapshots of a job: where they are, and which is the newest."""

import logging
import os
import pathlib
import re
import secrets
import shutil

from elastic_keras.snapshots.errors import SnapshotError
from elastic_keras.snapshots.manifest import Manifest
from elastic_keras.snapshots.snapshot import MANIFEST, Snapshot

_LOGGER = logging.getLogger(__name__)
FOLDER = "snapshots"
_NAME = re.compile(r"step-\d+")


class SnapshotFolder:
    """JOB_DIR/snapshots: one folder for each snapshot.

    Args:
        job_dir: The job directory.
    """

    def __init__(self, job_dir: str | pathlib.Path) -> None:
        self.path = pathlib.Path(job_dir, FOLDER)

    def begin(self, step: int) -> pathlib.Path:
        """Makes a folder for a new snapshot's files, under another name.

        Args:
            step: Optimizer updates made.

        Raises:
            OSError: It cannot be made.
        """
        for left in self.path.glob(".step-*.new"):
            # Of a try that did not come to its end.
            shutil.rmtree(left)
        # A name of its own: whoever still writes to an older one fails.
        place = self.path / f".{_name(step)}.{secrets.token_hex(4)}.new"
        place.mkdir(parents=True)
        return place

    def commit(self, place: pathlib.Path, manifest: Manifest) -> pathlib.Path:
        """Makes a complete snapshot visible.

        Args:
            place: What `begin` returned, with all files in it.
            manifest: What the files are.

        Returns:
            Its path.

        Raises:
            OSError: It cannot be written.
        """
        with open(place / MANIFEST, "x") as file:
            file.write(manifest.to_json())
            file.flush()
            os.fsync(file.fileno())
        final = self.path / _name(manifest.step)
        if final.exists():
            shutil.rmtree(final)
        os.replace(place, final)
        _sync(self.path)
        return final

    def all(self) -> list[pathlib.Path]:
        """Returns the paths of all snapshots, the oldest first."""
        try:
            names = os.listdir(self.path)
        except OSError:
            return []
        found = [name for name in names if _NAME.fullmatch(name)]
        return [self.path / n for n in sorted(found, key=lambda n: int(n[5:]))]

    def keep(self, count: int) -> None:
        """Removes all snapshots but the newest ones.

        Args:
            count: How many stay; 0 keeps all.

        Raises:
            OSError: One cannot be removed.
        """
        for path in self.all()[:-count] if count else ():
            shutil.rmtree(path)

    def newest(self) -> Snapshot:
        """Returns the newest snapshot whose every byte is there.

        Raises:
            SnapshotError: There is none.
        """
        for path in reversed(self.all()):
            try:
                snapshot = Snapshot(path)
                snapshot.check()
            except SnapshotError as error:
                _LOGGER.warning("Passed over: %s", error)
                continue
            return snapshot
        raise SnapshotError(
            "The job has left no snapshot to read. "
            f"Received: {str(self.path)!r}"
        )


def open_snapshot(path: str | pathlib.Path) -> Snapshot:
    """Opens a snapshot, every byte of it checked.

    Args:
        path: A snapshot's folder, or a job directory, whose newest snapshot
            is meant.

    Raises:
        SnapshotError: There is none, or it is torn or corrupt.
    """
    if os.path.isfile(os.path.join(path, MANIFEST)):
        snapshot = Snapshot(path)
        snapshot.check()
        return snapshot
    if not os.path.isdir(path):
        raise SnapshotError(f"No such folder. Received: {str(path)!r}")
    return SnapshotFolder(path).newest()


def _name(step: int) -> str:
    return f"step-{step:09d}"


def _sync(folder: pathlib.Path) -> None:
    """Brings the names in a folder to the disk."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
