"""Tables as files for vector search: Parquet, or NumPy."""

import importlib.util
import pathlib
import re
from typing import Any

import numpy as np

from elastic_keras.snapshots.snapshot import Snapshot

FOLDER = "embeddings"


def write_embeddings(snapshot: Snapshot, folder: pathlib.Path) -> list[str]:
    """Writes FOLDER/embeddings, a table at a time and part by part.

    With pyarrow a table is TABLE.parquet: columns `id`, int64, and
    `embedding`, a list of float32. Without it TABLE.npy, `(n, dim)`, and
    TABLE.ids.npy, `(n,)`. Rows that were never trained are not there.

    Args:
        snapshot: The snapshot.
        folder: The export's folder.

    Returns:
        The file that holds each table's rows.

    Raises:
        OSError: It cannot be written.
        SnapshotError: A table cannot be read.
    """
    place = folder / FOLDER
    place.mkdir()
    has_pyarrow = importlib.util.find_spec("pyarrow") is not None
    write = _write_parquet if has_pyarrow else _write_npy
    names = _file_names([table.name for table in snapshot.signature.tables])
    return [
        str(write(snapshot, number, place / name).relative_to(folder))
        for number, name in enumerate(names)
    ]


def _file_names(tables: list[str]) -> list[str]:
    names: list[str] = []
    for table in tables:
        name = re.sub(r"[^\w.-]", "_", table).lstrip(".") or "table"
        # Two tables may differ in what no file's name can hold.
        names.append(f"{name}_{len(names)}" if name in names else name)
    return names


def _write_parquet(
    snapshot: Snapshot, number: int, stem: pathlib.Path
) -> pathlib.Path:
    import pyarrow
    from pyarrow import parquet

    path = stem.with_name(f"{stem.name}.parquet")
    dim = snapshot.signature.tables[number].dim
    schema = pyarrow.schema(
        [
            ("id", pyarrow.int64()),
            ("embedding", pyarrow.list_(pyarrow.float32(), dim)),
        ]
    )
    with parquet.ParquetWriter(path, schema) as writer:
        for part in snapshot.parts(number):
            flat = pyarrow.array(part.weights.reshape(-1))
            rows = pyarrow.FixedSizeListArray.from_arrays(flat, dim)
            ids = pyarrow.array(part.ids)
            writer.write_table(pyarrow.table([ids, rows], schema=schema))
    return path


def _write_npy(
    snapshot: Snapshot, number: int, stem: pathlib.Path
) -> pathlib.Path:
    path = stem.with_name(f"{stem.name}.npy")
    count, dim = snapshot.rows(number), snapshot.signature.tables[number].dim
    ids_path = stem.with_name(f"{stem.name}.ids.npy")
    with open(path, "xb") as rows, open(ids_path, "xb") as ids:
        _write_header(rows, np.dtype(np.float32), (count, dim))
        _write_header(ids, np.dtype(np.int64), (count,))
        for part in snapshot.parts(number):
            rows.write(np.ascontiguousarray(part.weights).data)
            ids.write(np.ascontiguousarray(part.ids).data)
    return path


def _write_header(file: Any, dtype: np.dtype, shape: tuple[int, ...]) -> None:
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_1_0(file, header)
