"""master.json: what the master knows of its job, for the next master."""

import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from elastic_keras.config import ConfigError
from elastic_keras.wire.checksums import crc32c

NAME = "master.json"
FORMAT = 1


def write(folder: str | pathlib.Path, state: Mapping[str, Any]) -> None:
    """Writes the state under a temporary name, then renames it.

    Args:
        folder: A job directory, or that of a snapshot.
        state: Plain data.

    Raises:
        OSError: It cannot be written.
    """
    path = pathlib.Path(folder, NAME)
    body = json.dumps(state, sort_keys=True)
    text = json.dumps(
        {"format": FORMAT, "crc32c": crc32c(body.encode()), "state": body}
    )
    new = path.with_name(f".{NAME}.new")
    new.write_text(text)
    os.replace(new, path)


def read(folder: str | pathlib.Path) -> dict[str, Any] | None:
    """Reads what `write` wrote.

    Args:
        folder: A job directory, or that of a snapshot.

    Returns:
        The state; `None` where there is none.

    Raises:
        ConfigError: It cannot be read, is corrupt or of another format.
    """
    path = pathlib.Path(folder, NAME)
    try:
        raw = json.loads(path.read_text())
        if raw["format"] != FORMAT:
            raise ValueError(f"format={raw['format']!r}")
        body = raw["state"]
        if crc32c(body.encode()) != raw["crc32c"]:
            raise ValueError("its CRC32C is another")
        state: dict[str, Any] = json.loads(body)
        return state
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"The master's state cannot be read: {error}. "
            f"Received: {str(path)!r}"
        ) from error
