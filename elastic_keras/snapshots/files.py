"""The files of a snapshot: named arrays, as safetensors."""

import os
import pathlib
from collections.abc import Mapping, Sequence

import google_crc32c
import numpy as np
import safetensors
from safetensors import numpy as safe

from elastic_keras.snapshots.errors import SnapshotError
from elastic_keras.snapshots.manifest import FileEntry
from elastic_keras.wire.checksums import crc32c

_CHUNK_BYTES = 16 << 20


def write(
    folder: pathlib.Path, name: str, arrays: Mapping[str, np.ndarray]
) -> FileEntry:
    """Writes arrays to a new file, down to the disk.

    Args:
        folder: The snapshot's folder.
        name: The file's name.
        arrays: Arrays by name.

    Returns:
        What the manifest says of it.

    Raises:
        OSError: It cannot be written.
    """
    data = safe.save(
        {key: np.ascontiguousarray(array) for key, array in arrays.items()}
    )
    with open(folder / name, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return FileEntry(name, len(data), crc32c(data))


def read(
    folder: pathlib.Path, entry: FileEntry, names: Sequence[str] | None = None
) -> dict[str, np.ndarray]:
    """Reads arrays of a file; its bytes are not checked, see `check`.

    Args:
        folder: The snapshot's folder.
        entry: The file.
        names: The arrays to read; `None` for all.

    Raises:
        SnapshotError: It cannot be read, or lacks an array.
    """
    path = folder / entry.name
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            return {
                name: file.get_tensor(name)
                for name in (file.keys() if names is None else names)
            }
    except (OSError, safetensors.SafetensorError) as error:
        raise SnapshotError(
            f"A file of a snapshot cannot be read: {error}. "
            f"Received: {str(path)!r}"
        ) from error


def check(folder: pathlib.Path, entry: FileEntry) -> None:
    """Checks that a file holds the bytes that were written.

    Args:
        folder: The snapshot's folder.
        entry: The file.

    Raises:
        SnapshotError: It does not, or is not there.
    """
    path = folder / entry.name
    try:
        size = path.stat().st_size
        if size != entry.bytes:
            raise SnapshotError(
                f"A file of a snapshot is torn: it had {entry.bytes} bytes. "
                f"Received: {size} bytes in {str(path)!r}"
            )
        found = _crc32c(path)
    except OSError as error:
        raise SnapshotError(
            f"A file of a snapshot cannot be read: {error.strerror}. "
            f"Received: {str(path)!r}"
        ) from error
    if found != entry.crc32c:
        raise SnapshotError(
            "A file of a snapshot is corrupt: its CRC32C was "
            f"{entry.crc32c:#010x}. Received: {found:#010x} of {str(path)!r}"
        )


def _crc32c(path: pathlib.Path) -> int:
    total = 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            total = google_crc32c.extend(total, chunk)
    return total
