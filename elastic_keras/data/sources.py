"""Which files the data flags mean, and in which format they are."""

import glob
import os
import struct

import google_crc32c

from elastic_keras.config import ConfigError
from elastic_keras.data import tfrecord

_ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "text",
    ".text": "text",
    ".jsonl": "text",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
}
_PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip", ".lz4", ".snappy")
_FOREIGN = (".parquet", ".orc", ".avro", ".npz", ".npy", ".h5")


def expand(data: str, name: str = "data") -> list[str]:
    """Returns the files that a data flag names.

    Args:
        data: Paths or globs, separated by commas. A glob's files come in
            the order of their names.
        name: The flag, for messages.

    Raises:
        ConfigError: A part names nothing, a folder, what is no file, or a
            file twice.
    """
    paths: list[str] = []
    # A comma may be part of a name.
    whole = os.path.isfile(os.path.expanduser(data.strip()))
    for part in [data] if whole else data.split(","):
        pattern = os.path.expanduser(part.strip())
        if pattern:
            paths.extend(_files(pattern, name))
    if not paths:
        raise ConfigError(f"No data given. Received: {name}={data!r}")
    twice = sorted({path for path in paths if paths.count(path) > 1})
    if twice:
        raise ConfigError(
            f"Files named twice. Received: {name}={','.join(twice)!r}"
        )
    return paths


def _files(pattern: str, name: str) -> list[str]:
    if os.path.isdir(pattern):
        inside = os.path.join(pattern, "*")
        raise ConfigError(
            f"A folder is not data; name its files, e.g. '{inside}'. "
            f"Received: {name}={pattern!r}"
        )
    if os.path.isfile(pattern):
        return [pattern]
    if os.path.exists(pattern):
        # To open a pipe would wait for its writer.
        raise ConfigError(
            "Data must be files that can be read more than once. "
            f"Received: {name}={pattern!r}"
        )
    found = sorted(glob.glob(pattern, recursive=True))
    found = [path for path in found if os.path.isfile(path)]
    if not found:
        raise ConfigError(f"No such file. Received: {name}={pattern!r}")
    return found


def format_of(path: str, data_format: str = "auto") -> str:
    """Returns a file's format: `csv`, `tsv`, `text` or `tfrecord`.

    `auto` goes by the ending; a file with another ending is a TFRecord file
    if it begins like one, else text.

    Args:
        path: The file.
        data_format: The flag `--data_format`.

    Raises:
        ConfigError: The file is packed, in a format that is not read, or
            cannot be opened.
    """
    ending = os.path.splitext(path)[1].lower()
    if ending in _PACKED:
        raise ConfigError(
            "Packed files cannot be read from the middle, as tasks need; "
            f"unpack them first. Received: {path!r}"
        )
    if data_format != "auto":
        return data_format
    if ending in _FOREIGN:
        raise ConfigError(
            "This format is not read; convert to CSV, TSV, text or TFRecord, "
            "or write a custom_data_reader in the model-zoo module. "
            f"Received: {path!r}"
        )
    return _ENDINGS.get(ending) or _guess(path)


def _guess(path: str) -> str:
    try:
        with open(path, "rb") as file:
            head = file.read(12)
    except OSError as error:
        raise ConfigError(
            f"Cannot read data: {error.strerror}. Received: {path!r}"
        ) from error
    if len(head) < 12:
        return "text"
    (stored,) = struct.unpack("<I", head[8:])
    crc = tfrecord.masked(google_crc32c.value(head[:8]))
    return "tfrecord" if stored == crc else "text"
