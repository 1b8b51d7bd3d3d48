"""Ranges against Python's csv module, and as a partition of the records."""

import csv
import io
import itertools
import pathlib

import hypothesis
import hypothesis.strategies as st
import pytest

from elastic_keras.data.csv import CsvFormat
from elastic_keras.data.file_reader import FileReader
from elastic_keras.data.lines import LineFormat
from elastic_keras.data.reader import RecordRange

_FEW = hypothesis.settings(max_examples=100, deadline=None)
_ANY_CSV = st.text(alphabet='a,"\n ', max_size=40)
_FIELDS = st.lists(
    st.sampled_from(["a", "b", ",", '"', "\n", "\r\n", " ", "\u00e9"]),
    max_size=6,
).map("".join)


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("ranges")


def _python_rows(text: str) -> tuple[list[list[str]], bool]:
    """Returns the rows that the csv module reads, and whether all are."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), strict=True):
            if row:
                rows.append(row)
    except csv.Error:
        return rows, False
    return rows, True


def _fields(payload: bytes) -> list[str]:
    return next(csv.reader(io.StringIO(payload.decode(), newline="")))


def _make(folder: pathlib.Path, data: bytes, name: str = "a.csv") -> str:
    path = folder / name
    path.write_bytes(data)
    return str(path)


@_FEW
@hypothesis.given(text=_ANY_CSV)
def test_any_text_is_read_as_pythons_strict_csv(text):
    data = text.encode()
    records = CsvFormat().split(data)
    rows, whole = _python_rows(text)
    good = [
        _fields(data[s:e])
        for i, (s, e) in enumerate(
            zip(records.starts, records.ends, strict=True)
        )
        if i not in records.broken
    ]
    assert whole == (not records.broken)
    first_broken = min(records.broken, default=len(rows))
    assert good[:first_broken] == rows[:first_broken]
    if whole:
        assert good == rows


@_FEW
@hypothesis.given(
    rows=st.lists(st.lists(_FIELDS, min_size=2, max_size=3), max_size=12),
    line_end=st.sampled_from(["\n", "\r\n"]),
    size=st.integers(1, 5),
    chunk=st.integers(1, 40),
)
def test_written_csv_comes_back_from_ranges(
    folder, rows, line_end, size, chunk
):
    hypothesis.assume(rows)
    rows = [([*row, "x"])[:3] for row in rows]
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator=line_end).writerows(rows)
    path = _make(folder, buffer.getvalue().encode())
    reader = FileReader([path], chunk_bytes=chunk)
    ranges = reader.ranges(size)
    read = [_fields(r) for x in ranges for r in reader.records(x)]
    assert read == rows
    assert [x.count for x in ranges[:-1]] == [size] * (len(ranges) - 1)


@_FEW
@hypothesis.given(
    text=_ANY_CSV, chunk=st.integers(1, 12), size=st.integers(1, 4)
)
def test_pieces_and_ranges_agree_with_the_whole(folder, text, chunk, size):
    """A worker that sees a range's bytes finds what the scan counted."""
    data = text.encode()
    whole = CsvFormat().split(data)
    path = _make(folder, data)
    with open(path, "rb") as file:
        scanned = [int(n) for a in CsvFormat().scan(file, 0, chunk) for n in a]
    assert scanned == whole.nexts.tolist()
    found = []
    begin = 0
    for stop in [*range(size, len(scanned), size), len(scanned)]:
        end = scanned[stop - 1] if stop else 0
        part = CsvFormat().split(data[begin:end])
        found += [
            (s + begin, e + begin, i in part.broken)
            for i, (s, e) in enumerate(
                zip(part.starts.tolist(), part.ends.tolist(), strict=True)
            )
        ]
        begin = end
    expected = [
        (s, e, i in whole.broken)
        for i, (s, e) in enumerate(
            zip(whole.starts.tolist(), whole.ends.tolist(), strict=True)
        )
    ]
    assert found == expected


@_FEW
@hypothesis.given(text=_ANY_CSV, limit=st.integers(3, 12))
def test_the_longest_record_does_not_depend_on_the_pieces(folder, text, limit):
    data = text.encode()
    form = CsvFormat(max_record_bytes=limit)
    path = _make(folder, data)
    whole = form.split(data)
    with open(path, "rb") as file:
        scanned = [int(n) for a in form.scan(file, 0, 2) for n in a]
    assert scanned == whole.nexts.tolist()
    for i, (s, e) in enumerate(zip(whole.starts, whole.ends, strict=True)):
        if b'"' in data[s:e]:
            assert e - s <= limit or i in whole.broken


@_FEW
@hypothesis.given(
    data=st.lists(st.sampled_from([b"a", b"\n", b"\r\n", b'"', b"\t"])),
    chunk=st.integers(1, 9),
    size=st.integers(1, 5),
)
def test_text_lines_are_a_partition(folder, data, chunk, size):
    whole = b"".join(data)
    hypothesis.assume(whole)
    path = _make(folder, whole, "a.txt")
    reader = FileReader([path], chunk_bytes=chunk)
    ranges = reader.ranges(size)
    lines = whole.split(b"\n")
    lines = lines[:-1] if lines[-1] == b"" else lines
    expected = [line[:-1] if line[-1:] == b"\r" else line for line in lines]
    assert [r for x in ranges for r in reader.records(x)] == expected
    for before, after in itertools.pairwise(ranges):
        assert after.start == before.start + before.count
        assert after.byte_start == before.byte_end


def test_a_stray_quote_costs_one_line():
    data = b'1,a\n2,"b\n3,c\n4,"d"\n5,e\n'
    records = CsvFormat().split(data)
    lines = [
        data[s:e] for s, e in zip(records.starts, records.ends, strict=True)
    ]
    assert lines == [b"1,a", b'2,"b', b"3,c", b'4,"d"', b"5,e"]
    assert records.broken == {1: "text after a closing quote"}


def test_a_quote_that_never_closes():
    records = CsvFormat().split(b'1,a\n2,"b\n3,c\n')
    assert records.broken == {1: "a quote that does not close"}
    assert len(records.starts) == 3


def test_columns_leave_quoted_commas_out():
    data = b'1,"a,b","c""d,"\n1,2\n5" x,y,z\n'
    form = CsvFormat()
    assert form.columns(data, form.split(data)).tolist() == [3, 2, 3]
    data = b'1,"a,b","c""d,"\n1,2\n'
    assert form.columns(data, form.split(data)).tolist() == [3, 2]


def test_tsv_takes_quotes_as_they_are():
    form = LineFormat(b"\t")
    data = b'"a\tb"\n\n"\t"\n'
    records = form.split(data)
    assert len(records.starts) == 2
    assert form.columns(data, records).tolist() == [2, 2]


def test_ranges_know_their_bytes(tmp_path):
    path = _make(tmp_path, b"h1,h2\n1,2\n\n3,4\n5,6\n")
    reader = FileReader([path], csv_header=True)
    assert reader.metadata.column_names == ["h1", "h2"]
    assert reader.ranges(2) == [
        RecordRange(path, 0, 2, 6, 15),
        RecordRange(path, 2, 1, 15, 19),
    ]


def test_a_byte_order_mark_is_no_data(tmp_path):
    path = _make(tmp_path, b"\xef\xbb\xbfname\tb\n1\t2\n", "a.tsv")
    reader = FileReader([path], csv_header=True)
    assert reader.metadata.column_names == ["name", "b"]
    path = _make(tmp_path, b"\xef\xbb\xbfone\ntwo\n", "b.txt")
    reader = FileReader([path])
    assert list(reader.records(reader.ranges(9)[0])) == [b"one", b"two"]
