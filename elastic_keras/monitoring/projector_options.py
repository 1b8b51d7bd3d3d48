"""The options of TensorBoard's embedding projector."""

import os
from collections.abc import Mapping

from elastic_keras.config import ConfigError

_ALL = "all"
# The projector needs two coordinates.
_LEAST_DIM = 2


def chosen_tables(text: str, dims: Mapping[str, int]) -> list[str]:
    """Reads --projector_tables.

    Args:
        text: Names with commas between, or `all`, which leaves out tables
            that the projector cannot show.
        dims: Width of a row by table, of all tables of the model.

    Returns:
        Names of tables, each once.

    Raises:
        ConfigError: There is no such table, or it is too narrow.
    """
    if text == _ALL and _ALL not in dims:
        return [name for name, dim in dims.items() if dim >= _LEAST_DIM]
    names = list(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    for name in names:
        if name not in dims:
            known = ", ".join(dims) or "none"
            raise ConfigError(
                f"--projector_tables names no table of the model; its tables: "
                f"{known}. Received: projector_tables={text!r}"
            )
        if dims[name] < _LEAST_DIM:
            raise ConfigError(
                "The projector shows tables whose rows have at least "
                f"{_LEAST_DIM} numbers. Received: projector_tables={text!r}"
            )
    return names


def names_files(text: str) -> dict[str, str]:
    """Reads --projector_names.

    Args:
        text: `table=file`, with commas between several.

    Returns:
        File by table.

    Raises:
        ConfigError: It is something else, or there is no such file.
    """
    files: dict[str, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        table, equals, path = part.partition("=")
        if not (table and equals and path) or table in files:
            raise ConfigError(
                "--projector_names takes each table once, e.g. "
                f"movies=titles.tsv. Received: projector_names={text!r}"
            )
        if not os.path.isfile(path):
            raise ConfigError(
                "--projector_names names no file. "
                f"Received: projector_names={text!r}"
            )
        files[table] = path
    return files
