"""The snapshots of a job as files."""

import dataclasses
import json
import logging

import numpy as np
import pytest

from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.signature import ModelSignature, OptimizerSpec, TableSpec
from elastic_keras.snapshots import files
from elastic_keras.snapshots.errors import SnapshotError
from elastic_keras.snapshots.folder import SnapshotFolder, open_snapshot
from elastic_keras.snapshots.manifest import (
    Manifest,
    ShardEntry,
    TableEntry,
)
from elastic_keras.snapshots.snapshot import MANIFEST, Snapshot

_MODEL = ModelSignature(
    seed=1,
    optimizers=(OptimizerSpec("sgd", 0.1),),
    tables=(TableSpec("users", 2),),
)
_IDS = np.array([4, -2, 9])


def _take(job_dir, step=7):
    """Writes a snapshot of one shard with three rows."""
    folder = SnapshotFolder(job_dir)
    place = folder.begin(step)
    rows = {
        "ids": _IDS,
        "weights": np.arange(6, dtype=np.float32).reshape(3, 2),
        "slot/count": np.array([1, 2, 3], np.uint32),
    }
    part = files.write(place, "part", rows)
    nothing = np.empty(0, np.float32)
    dense = files.write(place, "dense", {"values": nothing, "states": nothing})
    entry = ShardEntry(
        step, step, ((0, 0.5),), dense, (TableEntry(3, (part,)),)
    )
    config = json.loads(JobConfig().to_json())
    manifest = Manifest("j", step, 2, _MODEL, config, (entry,))
    return folder.commit(place, manifest)


def test_what_was_written_is_read(tmp_path):
    snapshot = Snapshot(_take(tmp_path))
    snapshot.check()
    assert snapshot.signature == _MODEL
    assert (snapshot.num_shards, snapshot.rows(0)) == (1, 3)
    assert snapshot.manifest.shards[0].learning_rates == ((0, 0.5),)
    (rows,) = snapshot.parts(0)
    np.testing.assert_array_equal(rows.ids, _IDS)
    assert (rows.weights.shape, rows.slots) == ((3, 2), {})
    (rows,) = snapshot.parts(0, slots=True)
    assert rows.slots["count"].tolist() == [1, 2, 3]
    assert snapshot.nbytes == sum(
        each.stat().st_size
        for each in snapshot.path.iterdir()
        if each.name != MANIFEST
    )


def test_the_newest_is_found(tmp_path):
    for step in (9, 100, 20):
        _take(tmp_path, step)
    names = [path.name for path in SnapshotFolder(tmp_path).all()]
    assert names == ["step-000000009", "step-000000020", "step-000000100"]
    assert open_snapshot(tmp_path).manifest.step == 100
    assert open_snapshot(SnapshotFolder(tmp_path).all()[0]).manifest.step == 9


def test_one_that_was_never_finished_is_none(tmp_path):
    folder = SnapshotFolder(tmp_path)
    place = folder.begin(5)
    files.write(place, "part", {"ids": _IDS})
    with pytest.raises(SnapshotError, match="left no snapshot"):
        folder.newest()
    # The next try begins anew.
    assert list(folder.begin(5).iterdir()) == []


def test_the_same_step_again_takes_the_others_place(tmp_path):
    first, second = _take(tmp_path), _take(tmp_path)
    assert first == second
    assert len(SnapshotFolder(tmp_path).all()) == 1


def _tear(path):
    path.write_bytes(path.read_bytes()[:-1])


def _change(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["part", "dense"])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_tear, "is torn"),
        (_change, "is corrupt"),
        (lambda path: path.unlink(), "cannot be read"),
    ],
)
def test_a_damaged_one_is_passed_over(tmp_path, caplog, name, damage, words):
    _take(tmp_path, 1)
    newest = _take(tmp_path, 2)
    damage(newest / name)
    with pytest.raises(SnapshotError, match=words):
        Snapshot(newest).check()
    with pytest.raises(SnapshotError, match=words):
        open_snapshot(newest)
    with caplog.at_level(logging.WARNING):
        assert open_snapshot(tmp_path).manifest.step == 1
    assert words in caplog.text


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "3", '{"format": 1}', "[" * 100_000]
)
def test_a_manifest_that_is_none(tmp_path, text):
    path = _take(tmp_path)
    (path / MANIFEST).write_text(text)
    with pytest.raises(SnapshotError, match="Not a snapshot's manifest"):
        Snapshot(path)


def test_a_later_format_is_said(tmp_path):
    path = _take(tmp_path)
    raw = json.loads((path / MANIFEST).read_text())
    (path / MANIFEST).write_text(json.dumps({**raw, "format": 2}))
    with pytest.raises(SnapshotError, match="Received: format=2"):
        Snapshot(path)


def test_manifests_are_told_apart(tmp_path):
    manifest = Snapshot(_take(tmp_path)).manifest
    assert Manifest.from_json(manifest.to_json()) == manifest
    other = dataclasses.replace(manifest, step=8)
    assert Manifest.from_json(other.to_json()) == other


@pytest.mark.parametrize("path", ["nowhere", "."])
def test_no_snapshot_is_wrong_use(tmp_path, path):
    with pytest.raises(ConfigError, match="Received: '"):
        open_snapshot(tmp_path / path)
