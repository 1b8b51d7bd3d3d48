"""The runnable modules of a zoo's folder, found without running them."""

import dataclasses
import os
import re
from collections.abc import Iterator

from elastic_keras.config import ConfigError
from elastic_keras.zoo.outline import read_outline

# A module with so many of the contract's needed names is meant to be run;
# one with fewer helps others.
_LEAST_NAMES = 2
_README = "README.md"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A module of a zoo.

    Args:
        name: What --model_def takes.
        summary: The first line of its docstring.
        data: What the folder's README says of its data.
        error: Why it cannot be run, in one line; or nothing.
    """

    name: str
    summary: str = ""
    data: str = ""
    error: str = ""


def find_modules(folder: str) -> list[Entry]:
    """Finds the modules that are meant to be run.

    Args:
        folder: The zoo.

    Raises:
        ConfigError: There is no such folder, or no module in it.
    """
    root = os.path.abspath(os.path.expanduser(folder))
    if not os.path.isdir(root):
        raise ConfigError(
            "No such folder: name your zoo with --model_zoo, or write a first "
            "module with elastic_keras zoo init NAME. "
            f"Received: model_zoo={folder!r}"
        )
    found = [_entry(path, root) for path in _sources(root)]
    entries = [entry for entry in found if entry is not None]
    if not entries:
        raise ConfigError(
            "No model-zoo module in this folder: write one with "
            f"elastic_keras zoo init {os.path.join(folder, 'NAME.py')}. "
            f"Received: model_zoo={folder!r}"
        )
    return entries


def _sources(root: str) -> Iterator[str]:
    """Gives the Python files below a folder, in order."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            each
            for each in folders
            if not each.startswith((".", "__"))
            # An environment is no zoo.
            and not os.path.exists(os.path.join(folder, each, "pyvenv.cfg"))
        )
        for name in sorted(files):
            if name.endswith(".py") and not name.startswith("."):
                yield os.path.join(folder, name)


def _entry(path: str, root: str) -> Entry | None:
    outline = read_outline(path, root)
    name = _name(path, root)
    if outline.error and not outline.lines:
        return Entry(name, error=outline.error)
    given, missing = outline.given(), outline.missing()
    if len(given) < _LEAST_NAMES and "custom_model" not in given:
        return None
    error = outline.error
    if missing == ["custom_model"] and outline.models:
        name = f"{name}.{outline.models[0]}"
    elif missing and not outline.everything and not error:
        error = f"does not define {', '.join(missing)}"
    return Entry(name, outline.summary, _data(path), error)


def _name(path: str, root: str) -> str:
    """Returns what --model_def takes for a file."""
    relative = os.path.relpath(path, root)
    parts = relative[: -len(".py")].split(os.sep)
    if parts[-1] == "__init__" and len(parts) > 1:
        parts.pop()
    if all(part.isidentifier() for part in parts):
        return ".".join(parts)
    return relative


def _data(path: str) -> str:
    """Returns the README's first paragraph that names a module's file."""
    folder, name = os.path.split(path)
    try:
        with open(os.path.join(folder, _README), encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return ""
    for paragraph in re.split(r"\n\s*\n", text):
        plain = " ".join(paragraph.split())
        if f"`{name}`" in plain and not plain.startswith(("```", "|", "#")):
            return re.sub(r":$", ".", plain.removeprefix("* "))
    return ""
