"""A crashed job's journals become a snapshot for any number of shards."""

import json

import pytest

from elastic_keras.ps.answers import Outcome
from elastic_keras.ps.job_recovery import recover
from elastic_keras.ps.journal import segments
from elastic_keras.snapshots.errors import SnapshotError
from elastic_keras.snapshots.snapshot import Snapshot
from tests.ps.journaled import MODEL, Job


def _content(path):
    """What a snapshot holds, whatever the shards that wrote it."""
    snapshot = Snapshot(path)
    snapshot.check()
    dense = snapshot.dense()
    found = {
        "values": dense.values.tobytes(),
        "states": dense.states.tobytes(),
        "step": snapshot.manifest.step,
        **{name: slot.tobytes() for name, slot in dense.slots.items()},
    }
    for table in range(len(MODEL.tables)):
        for rows in snapshot.parts(table, slots=True):
            for place, row in enumerate(rows.ids):
                slots = {
                    k: slot[place].tobytes() for k, slot in rows.slots.items()
                }
                found[table, int(row)] = rows.weights[place].tobytes(), slots
    return found


def _train(job, *batches, shards=None):
    for batch in batches:
        for index in range(len(job.shards)) if shards is None else shards:
            assert job.push(batch, index=index).outcome is Outcome.APPLIED


def _reference(job_dir, *batches):
    job = Job(job_dir, restore_from="", max_staleness=9).begin()
    _train(job, *batches)
    path = job.snapshot()
    manifest = path / "manifest.json"
    raw = json.loads(manifest.read_text())
    raw["step"] = len(batches)
    manifest.write_text(json.dumps(raw))
    return _content(path)


@pytest.mark.parametrize("cuts", [(), (1,), (2, 4)])
def test_shards_that_crashed_go_on_as_others(tmp_path, cuts):
    options = {"max_staleness": 9}
    job = Job(tmp_path / "job", 3, **options).begin()
    for batch in range(6):
        if batch in cuts:
            job.snapshot()
        _train(job, batch)
    # The crash: only some shards have these.
    _train(job, 6, shards=(0, 1))
    _train(job, 8, shards=(2,))
    _train(job, 7)
    _train(job, 9, shards=(1, 2))
    path = recover(tmp_path / "job")
    assert _content(path) == _reference(tmp_path / "one", *range(6), 7)
    assert not (tmp_path / "job" / "journal").exists()

    more = Job(
        tmp_path / "job", 5, restore_from=str(path), job_id="k", **options
    )
    for shard in more.shards:
        report = shard.report()
        assert (report.version, report.iterations) == (7, 7)
        assert report.examples_by_epoch == {0: 56}
        shard.set_members(1, [1])
    assert more.push(3).outcome is Outcome.DUPLICATE
    _train(more, 6, 8)
    # Its own shards come back from its own journals.
    assert more.start(2).version == 9
    path = recover(tmp_path / "job")
    expected = _reference(tmp_path / "two", *range(6), 7, 6, 8)
    assert _content(path) == expected

    last = Job(
        tmp_path / "job", 2, restore_from=str(path), job_id="l", **options
    )
    assert last.shard.version == 9
    assert _content(last.snapshot())["values"] == expected["values"]


def test_what_is_buffered_is_applied(tmp_path):
    job = Job(tmp_path, 2, max_staleness=9, grads_to_wait=4).begin()
    _train(job, 0, 1)
    _train(job, 2, shards=(0,))
    snapshot = Snapshot(recover(tmp_path))
    assert snapshot.manifest.step == 1
    entry = snapshot.manifest.shards[0]
    assert (entry.version, entry.segment) == (2, -1)


def test_without_a_batch_in_common_the_snapshot_stays(tmp_path):
    job = Job(tmp_path, 2, max_staleness=9).begin()
    assert recover(tmp_path, keep_journals=True) is None
    _train(job, 0)
    path = job.snapshot()
    _train(job, 1, shards=(1,))
    before = _content(path)
    assert recover(tmp_path, keep_journals=True) == path
    assert _content(path) == before
    assert len(segments.numbers(job.folder)) == 1


def test_a_folder_without_a_job_is_refused(tmp_path):
    with pytest.raises(SnapshotError, match="No job left its config"):
        recover(tmp_path)
