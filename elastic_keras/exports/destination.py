"""The folder that an export goes to: complete, or not there at all."""

import contextlib
import os
import pathlib
import shutil
from collections.abc import Iterator

from elastic_keras.config import EXPORT_FORMATS, ConfigError


def check_output(path: str) -> None:
    """Checks that an export can be written there.

    Args:
        path: `--output`.

    Raises:
        ConfigError: It cannot.
    """
    if not path:
        raise ConfigError(
            "Name a new folder for the export with --output. "
            "Received: output=''"
        )
    if os.path.lexists(path) and not _is_empty_folder(path):
        raise ConfigError(
            "An export goes to a new or an empty folder: remove this one or "
            f"name another. Received: output={path!r}"
        )
    parent = pathlib.Path(path).absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise ConfigError(
            f"No folder can be made in {str(parent)!r}. "
            f"Received: output={path!r}"
        )


def read_formats(text: str) -> tuple[str, ...]:
    """Returns the formats that `--formats` names, each once.

    Raises:
        ConfigError: It names another, or none.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or not set(names) <= set(EXPORT_FORMATS):
        raise ConfigError(
            f"--formats takes some of {', '.join(EXPORT_FORMATS)}, separated "
            f"by commas. Received: formats={text!r}"
        )
    return tuple(name for name in EXPORT_FORMATS if name in names)


def temporary(path: str, pid: int) -> pathlib.Path:
    """Returns where a process writes an export before it is complete."""
    final = pathlib.Path(path).absolute()
    # Beside it: a rename works within one file system only.
    return final.with_name(f".{final.name}.{pid}.new")


@contextlib.contextmanager
def new_folder(path: str) -> Iterator[pathlib.Path]:
    """Gives a temporary folder that becomes `path` at the end of the block.

    Where the block raises, nothing is left.

    Args:
        path: `--output`.

    Raises:
        ConfigError: Something is there, or it cannot be written.
    """
    check_output(path)
    final = pathlib.Path(path).absolute()
    place = temporary(path, os.getpid())
    try:
        try:
            place.mkdir(parents=True)
            yield place
            check_output(path)
            if final.exists():
                final.rmdir()
            os.replace(place, final)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    except OSError as error:
        raise ConfigError(
            f"The export cannot be written: {error.strerror or error}. "
            f"Received: output={path!r}"
        ) from error


def _is_empty_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.listdir(path)
