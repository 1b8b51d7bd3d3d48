"""Records as bytes, and the files that they go to."""

import contextlib
import errno
import io
import os

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis.extra import numpy as st_numpy

from elastic_keras.ps.answers import Outcome
from elastic_keras.ps.journal import records, segments
from elastic_keras.ps.journal.records import (
    CorruptRecordError,
    Kind,
    TornRecordError,
)
from tests.ps.journaled import Job, state

_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
_ARRAYS = st.sampled_from(["<f4", "<f8", "<i8", "u1"]).flatmap(
    lambda dtype: st_numpy.arrays(
        dtype, st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0)
    )
)


def _bytes(*record):
    return b"".join(bytes(part) for part in records.encode(*record))


@hypothesis.given(
    st.sampled_from(Kind),
    st.integers(0, (1 << 64) - 1),
    st.lists(_INT64, max_size=20),
    st.lists(_ARRAYS, max_size=4),
)
def test_what_is_written_is_read(kind, sequence, numbers, arrays):
    data = _bytes(kind, sequence, numbers, arrays)
    assert len(data) % 8 == 0
    first, second = records.read(io.BytesIO(2 * data))
    for record in (first, second):
        assert (record.kind, record.sequence) == (kind, sequence)
        assert record.numbers == tuple(numbers)
        for found, array in zip(record.arrays, arrays, strict=True):
            assert (found.dtype, found.shape) == (array.dtype, array.shape)
            assert found.tobytes() == array.tobytes()


def test_each_cut_is_torn_and_each_flipped_bit_is_found():
    data = _bytes(Kind.PUSH, 3, [1, 2], [np.arange(5, dtype=np.float32)])
    for stop in range(1, len(data)):
        with pytest.raises(TornRecordError):
            list(records.read(io.BytesIO(data[:stop])))
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptRecordError):
            list(records.read(io.BytesIO(flipped)))


@hypothesis.given(st.lists(_INT64, max_size=6))
def test_a_payload_that_makes_no_sense_is_corrupt(words):
    payload = np.array(words, np.int64).tobytes()
    with contextlib.suppress(CorruptRecordError):
        records._decode(Kind.PUSH, 0, payload)


def test_a_float_keeps_its_bits():
    for value in (0.1, -0.0, float("inf"), 5e-324):
        bits = records.float_bits(value)
        assert records.bits_float(bits).hex() == value.hex()


def _fill_disk(monkeypatch, after):
    """Lets the disk be full after so many bytes of the next record."""

    def writev(fd, parts):
        data = b"".join(map(bytes, parts))[:after]
        if data:
            os.write(fd, data)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "writev", writev)


@pytest.mark.parametrize("after", [0, 10, 100])
def test_a_full_disk_breaks_the_journal_not_the_training(
    tmp_path, monkeypatch, after, caplog
):
    job = Job(tmp_path).begin()
    job.push(0)
    good = state(job.shard)
    with monkeypatch.context() as patch:
        _fill_disk(patch, after)
        assert job.push(1).outcome is Outcome.APPLIED
    assert "training goes on without it: No space left" in caplog.text
    # Nothing may follow what is missing.
    assert job.push(2).outcome is Outcome.APPLIED
    assert "No space left" in job.shard.journal.error
    job.start()
    assert state(job.shard) == good
    assert "could not be written" in job.restored[0].loss
    # A push of a version that is gone, and then all is well again.
    assert job.push(3, pull_version=3).outcome is Outcome.APPLIED
    after_all = state(job.shard)
    job.start()
    assert (state(job.shard), job.restored[0].loss) == (after_all, "")


def test_a_complete_snapshot_mends_a_broken_journal(tmp_path, monkeypatch):
    job = Job(tmp_path).begin()
    with monkeypatch.context() as patch:
        _fill_disk(patch, 10)
        job.push(0)
    job.snapshot(commit=False)
    assert "next complete snapshot" in job.shard.journal.error
    job.snapshot()
    assert job.shard.journal.error == ""
    job.push(1)
    before = state(job.shard)
    job.start()
    assert (state(job.shard), job.restored[0].loss) == (before, "")


def test_a_gap_between_segments_is_not_passed_over(tmp_path, monkeypatch):
    job = Job(tmp_path).begin()
    good = state(job.shard)
    with monkeypatch.context() as patch:
        _fill_disk(patch, 10)
        job.push(0)
    place = tmp_path / "place"
    place.mkdir()
    # A snapshot that nobody makes complete.
    job.shard.cut(place).entry()
    job.push(1)
    job.start()
    assert state(job.shard) == good
    assert "is missing" in job.restored[0].loss


def test_a_folder_that_cannot_be_made_breaks_the_journal(tmp_path):
    (tmp_path / "journal").write_text("in the way")
    job = Job(tmp_path).begin()
    assert job.push(0).outcome is Outcome.APPLIED
    assert "cannot be written: Not a directory" in job.shard.journal.error


def test_a_segment_that_was_just_begun_counts_for_nothing(tmp_path):
    job = Job(tmp_path).begin()
    job.push(0)
    before = state(job.shard)
    torn = segments.path_of(job.folder, 1)
    torn.write_bytes(segments.path_of(job.folder, 0).read_bytes()[:50])
    job.start()
    assert (state(job.shard), job.restored[0].loss) == (before, "")
    job.push(1)
    assert job.shard.journal.rotate() == 1
    job.push(2)
    before = state(job.shard)
    job.start()
    assert (state(job.shard), job.restored[0].loss) == (before, "")
