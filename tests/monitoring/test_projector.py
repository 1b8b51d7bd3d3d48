"""Tables for the embedding projector."""

import json

import numpy as np
import pytest
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from elastic_keras.config import ConfigError, JobConfig, MonitoringOptions
from elastic_keras.monitoring import projector
from elastic_keras.monitoring.projector_options import (
    chosen_tables,
    names_files,
)
from elastic_keras.signature import ModelSignature, OptimizerSpec, TableSpec
from elastic_keras.snapshots import files
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.manifest import (
    Manifest,
    ShardEntry,
    TableEntry,
)
from elastic_keras.snapshots.snapshot import Snapshot

_DIMS = {"users": 2, "items": 3, "bias": 1}


@pytest.fixture
def snapshot(tmp_path):
    """A snapshot of two shards; each table has 7 rows in 3 parts."""
    folder = SnapshotFolder(tmp_path / "job")
    place = folder.begin(5)
    parts = ([0, 1, 2], [3, 4]), ([5, 6],)
    shards = []
    for shard, shard_parts in enumerate(parts):
        tables = []
        for table, dim in _DIMS.items():
            entries = tuple(
                files.write(
                    place,
                    f"{shard}-{table}-{number}",
                    {
                        "ids": np.array(ids, np.int64),
                        "weights": np.array(
                            [[index + 0.5] * dim for index in ids], np.float32
                        ),
                    },
                )
                for number, ids in enumerate(shard_parts)
            )
            rows = sum(map(len, shard_parts))
            tables.append(TableEntry(rows, entries))
        nothing = np.empty(0, np.float32)
        dense = files.write(
            place, f"{shard}-dense", {"values": nothing, "states": nothing}
        )
        shards.append(ShardEntry(5, 5, (), dense, tuple(tables)))
    model = ModelSignature(
        seed=1,
        optimizers=(OptimizerSpec("sgd", 0.1),),
        tables=tuple(TableSpec(name, dim) for name, dim in _DIMS.items()),
    )
    config = json.loads(JobConfig().to_json())
    manifest = Manifest("j", 5, 1, model, config, tuple(shards))
    return Snapshot(folder.commit(place, manifest))


def _write(folder, snapshot, **options):
    """Writes tables; returns, by table, ids and rows as TensorBoard would."""
    folder.mkdir(exist_ok=True)
    projector.write(folder, snapshot, MonitoringOptions(**options))
    text = (folder / "projector_config.pbtxt").read_text()
    found = {}
    for entry in text_format.Parse(text, ProjectorConfig()).embeddings:
        rows = np.loadtxt(folder / entry.tensor_path, delimiter="\t", ndmin=2)
        assert list(entry.tensor_shape) == list(rows.shape)
        names = (folder / entry.metadata_path).read_text().splitlines()
        found[entry.tensor_name] = names, rows
    return found


def test_all_rows_of_chosen_tables(tmp_path, snapshot):
    found = _write(tmp_path / "run", snapshot, projector_tables="items,users")
    assert list(found) == ["items", "users"]
    names, rows = found["items"]
    assert names == [str(index) for index in range(7)]
    np.testing.assert_array_equal(rows, np.arange(7)[:, None] + [[0.5] * 3])


@pytest.mark.parametrize(
    ("most", "ids"), [(6, "0246"), (3, "036"), (1, "0"), (7, "0123456")]
)
def test_a_large_table_is_sampled_evenly(tmp_path, snapshot, most, ids):
    found = _write(
        tmp_path / "run",
        snapshot,
        projector_tables="users",
        projector_rows=most,
    )
    names, rows = found["users"]
    assert names == list(ids)
    np.testing.assert_array_equal(rows[:, 0], [int(i) + 0.5 for i in ids])


def test_ids_have_names(tmp_path, snapshot):
    path = tmp_path / "names.tsv"
    path.write_text("id\tname\n6\tsix\tor so\n99\tno row\n4\t\n")
    found = _write(
        tmp_path / "run",
        snapshot,
        projector_tables="all",
        projector_names=f"users={path}",
        projector_rows=4,
    )
    assert list(found) == ["users", "items"]
    names, _ = found["users"]
    # Two columns have a header.
    assert names == ["name\tid", "0\t0", "2\t2", "4\t4", "six or so\t6"]
    assert found["items"][0] == ["0", "2", "4", "6"]


def test_tables_that_cannot_be_shown():
    assert chosen_tables("", _DIMS) == []
    assert chosen_tables(" items, items", _DIMS) == ["items"]
    assert chosen_tables("all", {"all": 2, "one": 2}) == ["all"]
    with pytest.raises(ConfigError, match="its tables: users, items, bias"):
        chosen_tables("user", _DIMS)
    with pytest.raises(ConfigError, match="at least 2 numbers"):
        chosen_tables("bias", _DIMS)


def test_names_are_files(tmp_path):
    path = tmp_path / "a.tsv"
    path.touch()
    assert names_files(f"a={path}, b={path}") == {
        "a": str(path),
        "b": str(path),
    }
    for text in ("a", f"a={path},a={path}", f"={path}", "a="):
        with pytest.raises(ConfigError, match="takes each table once"):
            names_files(text)
    with pytest.raises(ConfigError, match="names no file"):
        names_files("a=/nowhere/a.tsv")
