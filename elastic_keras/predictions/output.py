"""One file of all outputs: NPZ, CSV or Parquet."""

import csv
import importlib.util
import math
import os
import pathlib
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, Any

import numpy as np

from elastic_keras.config import ConfigError
from elastic_keras.predictions.parts import Parts

_Writer = Callable[[Parts, pathlib.Path], None]


def check_path(path: str) -> None:
    """Checks that predictions can be written there.

    Args:
        path: `--output`.

    Raises:
        ConfigError: They cannot.
    """
    suffix = pathlib.PurePath(path).suffix
    if suffix not in _WRITERS:
        raise ConfigError(
            f"Predictions are written as {', '.join(_WRITERS)}. "
            f"Received: output={path!r}"
        )
    if suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise ConfigError(
            "Parquet needs pyarrow: pip install 'elastic_keras[parquet]'. "
            f"Received: output={path!r}"
        )
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise ConfigError(
            "The folder of --output must be there and writable. "
            f"Received: output={path!r}"
        )


def write(parts: Parts, path: str) -> None:
    """Writes all parts to one file, under a temporary name first.

    Args:
        parts: The parts.
        path: The file; its ending names the format.

    Raises:
        ConfigError: The outputs do not fit the format.
        OSError: It cannot be written.
    """
    final = pathlib.Path(path)
    new = final.with_name(f".{final.name}.new")
    try:
        _WRITERS[final.suffix](parts, new)
        os.replace(new, final)
    finally:
        new.unlink(missing_ok=True)


def _write_npz(parts: Parts, path: pathlib.Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in parts.names:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                _write_npy(parts, name, file)


def _write_npy(parts: Parts, name: str, file: IO[bytes]) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(parts.dtype(name)),
        "fortran_order": False,
        "shape": (parts.examples, *parts.shape(name)),
    }
    np.lib.format.write_array_header_1_0(file, header)
    for array in parts.array(name):
        file.write(np.ascontiguousarray(array).tobytes())


def _write_csv(parts: Parts, path: pathlib.Path) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(_columns(parts))
        for arrays in parts.arrays():
            writer.writerows(_rows(list(arrays.values())))


def _columns(parts: Parts) -> list[str]:
    names: list[str] = []
    for name in parts.names:
        shape = parts.shape(name)
        if len(shape) > 1:
            raise ConfigError(
                "CSV holds numbers and vectors; write .npz. Received: "
                f"{name} of shape {shape} for an example"
            )
        if shape in ((), (1,)):
            names.append(name)
        else:
            names += _numbered(name, shape[0], {*parts.names, *names})
    return names


def _numbered(name: str, width: int, taken: set[str]) -> list[str]:
    """Returns a vector's columns, with names that no other column has."""
    separator = "_"
    while True:
        names = [f"{name}{separator}{column}" for column in range(width)]
        if taken.isdisjoint(names):
            return names
        separator += "_"


def _rows(arrays: list[np.ndarray]) -> Iterator[list[str]]:
    flat = [
        array.reshape(len(array), math.prod(array.shape[1:]))
        for array in arrays
    ]
    for row in zip(*flat, strict=True):
        # As short as tells the number apart from its neighbours.
        yield [_text(value) for values in row for value in values]


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        # A model may put out any bytes; those that are no text are told.
        return value.decode(errors="backslashreplace")
    return str(value)


def _write_parquet(parts: Parts, path: pathlib.Path) -> None:
    import pyarrow
    from pyarrow import parquet

    writer = None
    try:
        for arrays in parts.arrays():
            table = pyarrow.table(
                {name: _arrow(pyarrow, name, a) for name, a in arrays.items()}
            )
            if writer is None:
                writer = parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
        if writer is None:
            parquet.write_table(pyarrow.table({}), path)
    finally:
        if writer is not None:
            writer.close()


def _arrow(pyarrow: Any, name: str, array: np.ndarray) -> Any:
    if array.ndim > 2:
        raise ConfigError(
            "Parquet holds numbers and vectors; write .npz. Received: "
            f"{name} of shape {array.shape[1:]} for an example"
        )
    flat = pyarrow.array(array.reshape(-1))
    if array.ndim == 1 or array.shape[1] == 1:
        return flat
    return pyarrow.FixedSizeListArray.from_arrays(flat, array.shape[1])


_WRITERS: dict[str, _Writer] = {
    ".npz": _write_npz,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}
