"""A shard that is killed comes back with the same bits."""

import dataclasses
import os
import shutil

import hypothesis
import hypothesis.strategies as st
import pytest

from elastic_keras.ps.answers import Outcome
from elastic_keras.ps.journal import segments
from tests.ps.journaled import Job, state

_POLICIES = [
    {},
    {"max_staleness": 2, "grads_to_wait": 3},
    {"max_staleness": 1, "staleness_policy": "recompute"},
    {"max_staleness": 1, "staleness_policy": "dampen", "grads_to_wait": 2},
]
_OPERATIONS = st.one_of(
    st.tuples(
        st.just("push"),
        st.integers(0, 20),
        st.integers(1, 3),
        st.floats(0, 1),
        st.sampled_from(["", "", "", "nonfinite", "nan"]),
    ),
    st.tuples(
        st.just("members"), st.integers(0, 9), st.sets(st.integers(1, 3))
    ),
    st.tuples(st.just("pull"), st.integers(1, 3), st.integers(0, 9)),
    st.tuples(st.just("rate"), st.integers(0, 1), st.floats(0, 1)),
    st.tuples(st.just("flush")),
    st.tuples(st.just("finalize")),
    st.tuples(st.just("cut"), st.booleans()),
    st.tuples(st.just("kill")),
)


def _do(job, operation):
    what, *rest = operation
    shard = job.shard
    if what == "push":
        batch, member, share, kind = rest
        fields = {
            "member": member,
            "pull_version": int(share * shard.version),
        }
        if kind:
            fields |= {"gradients": None, "nonfinite": True}
        job.push(batch, **fields)
    elif what == "members":
        shard.set_members(rest[0], sorted(rest[1]))
    elif what == "pull":
        if shard._books._staleness.clocks.knows(rest[0]):
            shard.may_pull(rest[0], rest[1], recompute=False)
    elif what == "rate":
        shard.set_learning_rate(*rest)
    elif what == "flush":
        shard.flush()
    elif what == "finalize":
        shard.finalize()
    elif what == "cut":
        job.snapshot(commit=rest[0])
    else:
        before = state(shard)
        job.start()
        assert state(job.shard) == before
        assert job.restored[0].loss == ""


@pytest.mark.parametrize("options", _POLICIES)
@hypothesis.given(st.lists(_OPERATIONS, max_size=25))
@hypothesis.settings(max_examples=25, deadline=None)
def test_a_killed_shard_is_the_same_bit_for_bit(
    tmp_path_factory, options, operations
):
    job = Job(tmp_path_factory.mktemp("job"), **options).begin()
    for operation in operations:
        _do(job, operation)
    _do(job, ("kill",))
    _do(job, ("push", 30, 1, 1.0, ""))
    _do(job, ("kill",))


@pytest.mark.parametrize("cut", [None, 0, 3])
def test_a_tail_torn_at_any_byte_is_cut_off(tmp_path, cut, caplog):
    options = {"max_staleness": 1, "grads_to_wait": 2}
    job = Job(tmp_path / "job", **options).begin()
    sizes, states = [], []
    for batch in range(5):
        if batch == cut:
            job.snapshot()
            sizes, states = [], []
        sizes.append(_size(job))
        states.append(state(job.shard))
        job.push(batch)
    sizes.append(_size(job))
    states.append(state(job.shard))
    edges = {edge + off for edge in sizes for off in (-9, -1, 0, 1, 31, 40)}
    for byte in sorted(edges | set(range(sizes[-2], sizes[-1], 97))):
        if not sizes[0] <= byte <= sizes[-1]:
            continue
        copy = tmp_path / f"copy-{byte}"
        shutil.copytree(tmp_path / "job", copy)
        torn = segments.path_of(
            segments.folder_of(copy, 0), job.shard.journal.segment
        )
        os.truncate(torn, byte)
        killed = Job(copy, **options)
        whole = max(i for i, edge in enumerate(sizes) if edge <= byte)
        assert state(killed.shard) == states[whole]
        assert killed.restored[0].loss == ""
        assert torn.stat().st_size == sizes[whole]
        # It goes on behind what was cut off.
        killed.push(20)
        after = state(killed.shard)
        killed.start()
        assert state(killed.shard) == after
    assert "Cut off: a record" in caplog.text


def _size(job):
    journal = job.shard.journal
    return segments.path_of(job.folder, journal.segment).stat().st_size


def _damage(path, place=-20):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_a_corrupt_record_ends_the_replay_and_is_told(tmp_path, caplog):
    job = Job(tmp_path).begin()
    for batch in range(6):
        if batch == 3:
            before, size = state(job.shard), _size(job)
        job.push(batch)
    path = segments.path_of(job.folder, 0)
    left = path.stat().st_size - size
    _damage(path, size + 100)
    job.start()
    assert state(job.shard) == before
    loss = job.restored[0].loss
    assert f"{left} bytes from byte {size} of {path}" in loss
    assert "the checksum of record" in loss
    assert "Shard 0 has lost" in caplog.text
    # Workers know of versions that are gone.
    assert job.push(4, pull_version=5).outcome is Outcome.APPLIED
    after = state(job.shard)
    job.start()
    assert (state(job.shard), job.restored[0].loss) == (after, "")


def test_a_corrupt_snapshot_is_passed_over_for_the_one_before(tmp_path):
    job = Job(tmp_path).begin()
    job.push(0)
    job.snapshot()
    job.push(1)
    newest = job.snapshot(commit=False)
    job.push(2)
    before = state(job.shard)
    _damage(newest / "shard-0.dense.safetensors")
    job.start()
    assert state(job.shard) == before
    assert job.restored[0].loss == ""


def test_without_older_segments_it_is_back_at_the_snapshot_before(tmp_path):
    job = Job(tmp_path).begin()
    job.push(0)
    job.snapshot()
    before = state(job.shard)
    job.push(1)
    newest = job.snapshot()
    job.push(2)
    _damage(newest / "shard-0.dense.safetensors")
    job.start()
    assert state(job.shard) == before
    assert "pushed after" in job.restored[0].loss
    job.push(5)
    after = state(job.shard)
    job.start()
    assert (state(job.shard), job.restored[0].loss) == (after, "")


def test_without_any_snapshot_and_segment_it_says_so(tmp_path):
    job = Job(tmp_path).begin()
    job.push(0)
    shutil.rmtree(job.snapshot())
    job.start()
    assert state(job.shard) is None
    assert "everything" in job.restored[0].loss


def test_commit_deletes_what_the_snapshot_holds(tmp_path):
    job = Job(tmp_path).begin()
    job.push(0)
    held = job.shard.journal.nbytes
    job.snapshot(commit=False)
    assert segments.numbers(job.folder) == [0, 1]
    assert job.shard.journal.nbytes > held
    job.snapshot()
    assert segments.numbers(job.folder) == [2]
    assert job.shard.journal.nbytes == _size(job) < held
    before = state(job.shard)
    job.start()
    assert state(job.shard) == before


def test_a_cut_is_the_moment_of_the_cut(tmp_path):
    job = Job(tmp_path, max_staleness=3).begin()
    for batch in range(4):
        job.push(batch)
    before = state(job.shard)
    place = tmp_path / "place"
    place.mkdir()
    cut = job.shard.cut(place)
    for batch in range(4, 40):
        job.push(batch)
    entry = cut.entry()
    assert (entry.version, entry.segment) == (4, 1)
    assert (cut.moment.batches, cut.moment.examples) == (4, 32)
    assert state(job.shard) != before


def test_another_job_begins_anew(tmp_path):
    job = Job(tmp_path).begin()
    job.push(0)
    job.config = dataclasses.replace(job.config, job_id="another")
    job.start()
    assert state(job.shard) is None
    assert job.restored[0].loss == ""
    assert segments.numbers(job.folder) == [0, 1]
    job.begin().push(3)
    before = state(job.shard)
    job.start()
    assert state(job.shard) == before
