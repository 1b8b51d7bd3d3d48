"""Reading ranges: order, broken records, files that change, wrong use."""

import logging
import pathlib
import subprocess
import sys

import pytest

from elastic_keras.config import ConfigError, DataOptions
from elastic_keras.data import shuffle
from elastic_keras.data.errors import BadRecord, DataError, SourceChanged
from elastic_keras.data.file_reader import FileReader
from elastic_keras.data.reader import DataReader, RecordRange, open_reader


def _write(path: pathlib.Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def _records(reader: DataReader, *args, **kwargs) -> list[bytes]:
    dataset, counts = reader.dataset(*args, **kwargs)
    records = list(dataset.as_numpy_iterator())
    assert counts.records == len(records)
    return records


def test_ranges_need_no_tensorflow(tmp_path):
    path = _write(tmp_path / "a.csv", "1,2\n")
    code = (
        "import sys; from elastic_keras.config import DataOptions; "
        "from elastic_keras.data.reader import open_reader; "
        "r = open_reader(sys.argv[1], DataOptions()); "
        "assert r.ranges(5)[0].count == 1; "
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)


def test_the_first_range_reads_no_further(tmp_path):
    lines = "".join(f"{n},0\n" for n in range(50))
    paths = [_write(tmp_path / name, lines) for name in ("a.csv", "b.csv")]
    reader = FileReader(paths, chunk_bytes=64)
    expected = reader.ranges(5)[0]
    # To scan it would be an error from here on.
    pathlib.Path(paths[1]).unlink()
    assert reader.first_range(5) == expected
    assert reader.first_range(1000).count == 50


def test_the_first_range_of_nothing(tmp_path):
    path = _write(tmp_path / "a.csv", "\n\n")
    with pytest.raises(
        DataError, match=r"hold no records\. Received: .*a\.csv"
    ):
        FileReader([path]).first_range(5)


def test_the_first_range_of_a_reader_without_ranges():
    class Empty(DataReader):
        def ranges(self, records_per_task):
            return []

        def records(self, record_range):
            return []

    with pytest.raises(ConfigError, match=r"no records.*Received: Empty"):
        Empty().first_range(5)


def test_the_order_is_a_function_of_range_and_seed(tmp_path):
    lines = [str(n) for n in range(50)]
    path = _write(tmp_path / "a.txt", "\n".join(lines))
    one, two = FileReader([path]), FileReader([path])
    first, second = one.ranges(30)
    plain = _records(one, first)
    assert plain == [n.encode() for n in lines[:30]]
    shuffled = _records(one, first, shuffle_seed=7)
    assert shuffled == _records(two, first, shuffle_seed=7)
    assert shuffled != plain
    assert sorted(shuffled) == sorted(plain)
    assert shuffled != _records(one, first, shuffle_seed=8)
    assert len(_records(one, second, shuffle_seed=7)) == 20


def test_the_order_stays_the_same_in_later_versions():
    assert shuffle.order(8, 1).tolist() == [7, 4, 1, 2, 6, 5, 0, 3]
    assert shuffle.order(8, -1).tolist() == shuffle.order(8, 2**64 - 1).tolist()
    assert shuffle.order(0, 3).tolist() == []


@pytest.mark.parametrize("seed", [None, 7])
def test_what_is_left_out_does_not_change_the_order(tmp_path, seed):
    lines = [str(n) for n in range(50)]
    reader = FileReader([_write(tmp_path / "a.txt", "\n".join(lines))])
    (whole,) = reader.ranges(50)
    every = _records(reader, whole, shuffle_seed=seed)
    some = _records(reader, whole, shuffle_seed=seed, leave_out=(0, 31))
    assert some == [line for line in every if line not in (b"0", b"31")]


def test_a_line_with_too_few_columns(tmp_path, caplog):
    path = _write(tmp_path / "a.tsv", "1\t2\n3\t4\n5\n6\t7\n8\t9\t0\n")
    reader = FileReader([path])
    first, second = reader.ranges(3)
    with pytest.raises(BadRecord) as caught:
        reader.dataset(first)
    error = caught.value
    assert (error.record, error.position) == (2, 8)
    assert "1 columns, not 2" in str(error)
    assert f"Received: {path}, record 2, byte 8" in str(error)
    with caplog.at_level(logging.WARNING):
        assert _records(reader, first, bad_records="skip") == [b"1\t2", b"3\t4"]
    assert "record 2, byte 8" in caplog.text
    with pytest.raises(BadRecord, match="3 columns, not 2") as caught:
        reader.dataset(second)
    assert (caught.value.record, caught.value.position) == (4, 14)


def test_columns_follow_the_header(tmp_path):
    path = _write(tmp_path / "a.csv", 'a,"b ""x""",c\n1,2,3\n4,5\n')
    reader = FileReader([path], csv_header=True)
    assert reader.metadata.column_names == ["a", 'b "x"', "c"]
    (whole,) = reader.ranges(9)
    assert _records(reader, whole, bad_records="skip") == [b"1,2,3"]


def test_the_first_record_is_not_always_the_right_one(tmp_path):
    path = _write(tmp_path / "a.csv", "1,2,3\n4,5\n6,7\n8,9,0\n1,1\n")
    reader = FileReader([path])
    (whole,) = reader.ranges(9)
    with pytest.raises(BadRecord, match="3 columns, not 2 as in most"):
        reader.dataset(whole)
    good = _records(reader, whole, bad_records="skip")
    assert good == [b"4,5", b"6,7", b"1,1"]


def test_a_header_that_fits_hardly_any_record_is_said(tmp_path):
    path = _write(tmp_path / "a.csv", "a,b\n" + "1,2,3\n" * 5 + "4,5\n")
    reader = FileReader([path], csv_header=True)
    (whole,) = reader.ranges(9)
    with pytest.raises(DataError, match=r"names 2 columns.*have 3.*a\.csv"):
        reader.dataset(whole, bad_records="skip")
    with pytest.raises(BadRecord, match="3 columns, not 2 as in the header"):
        reader.dataset(whole)


def test_a_broken_quote(tmp_path):
    path = _write(tmp_path / "a.csv", '1,2\n3,"4\n5,6\n')
    reader = FileReader([path])
    (whole,) = reader.ranges(9)
    with pytest.raises(BadRecord, match="a quote that does not close"):
        reader.dataset(whole)
    assert _records(reader, whole, bad_records="skip") == [b"1,2", b"5,6"]


def test_many_broken_records_are_logged_in_short(tmp_path, caplog):
    path = _write(tmp_path / "a.csv", "1,2\n" * 31 + "3\n" * 30)
    reader = FileReader([path])
    (whole,) = reader.ranges(99)
    with caplog.at_level(logging.WARNING):
        _, counts = reader.dataset(whole, bad_records="skip")
    assert counts.bad_records == 30
    assert len(caplog.records) == 11
    assert "20 more broken records" in caplog.text


def test_a_file_that_changes(tmp_path):
    path = tmp_path / "a.txt"
    _write(path, "one\ntwo\n")
    reader = FileReader([str(path)])
    (whole,) = reader.ranges(9)
    _write(path, "one\ntwo\nthree\n")
    with pytest.raises(SourceChanged, match="changed"):
        reader.dataset(whole)
    path.unlink()
    with pytest.raises(DataError, match="Cannot read data"):
        reader.dataset(whole)


def test_a_range_of_an_older_file(tmp_path):
    path = tmp_path / "a.txt"
    _write(path, "one\ntwo\n")
    (whole,) = FileReader([str(path)]).ranges(9)
    _write(path, "one-two\n")
    with pytest.raises(SourceChanged):
        FileReader([str(path)]).dataset(whole)
    _write(path, "one\n")
    with pytest.raises(SourceChanged):
        FileReader([str(path)]).dataset(whole)


def test_a_range_of_an_unknown_file(tmp_path):
    path = _write(tmp_path / "a.txt", "one\n")
    with pytest.raises(DataError, match="do not name"):
        FileReader([path]).dataset(RecordRange("b.txt", 0, 1, 0, 4))


def test_globs_and_lists_keep_their_order(tmp_path):
    for name in ("day_2.txt", "day_1.txt", "z.txt"):
        _write(tmp_path / name, name + "\n")
    reader = open_reader(
        f"{tmp_path}/z.txt, {tmp_path}/day_*.txt", DataOptions()
    )
    sources = [pathlib.Path(x.source).name for x in reader.ranges(5)]
    assert sources == ["z.txt", "day_1.txt", "day_2.txt"]


@pytest.mark.parametrize(
    ("data", "header", "words"),
    [
        ("", False, "No data given"),
        ("{0}/none.csv", False, "No such file"),
        ("{0}/none*.csv", False, "No such file"),
        ("{0}", False, "A folder is not data"),
        ("{0}/a.csv,{0}/a.csv", False, "named twice"),
        ("{0}/a.csv.gz", False, "unpack them first"),
        ("{0}/a.parquet", False, "custom_data_reader"),
        ("{0}/a.csv,{0}/a.txt", False, "must have one format"),
        ("{0}/a.txt", True, "--csv_header goes with"),
        ("{0}/empty.csv", False, "hold no records"),
        ("{0}/header.csv", True, "hold no records"),
        ("{0}/a.csv,{0}/header.csv", True, "Headers differ"),
    ],
)
def test_wrong_use(tmp_path, data, header, words):
    for name, text in {
        "a.csv": "x,y\n1,2\n",
        "a.csv.gz": "?",
        "a.parquet": "PAR1",
        "a.txt": "x\n",
        "empty.csv": "",
        "header.csv": "x\n",
    }.items():
        _write(tmp_path / name, text)
    options = DataOptions(csv_header=header)
    with pytest.raises(ConfigError, match=words) as caught:
        open_reader(data.format(tmp_path), options).ranges(10)
    assert "Received: " in str(caught.value)


def test_a_custom_reader(tmp_path):
    class Numbers(DataReader):
        def __init__(self, origin, records_per_task, step=1):
            self.count, self.step = int(origin), step

        def ranges(self, records_per_task):
            return [
                RecordRange("numbers", n, min(records_per_task, self.count - n))
                for n in range(0, self.count, records_per_task)
            ]

        def records(self, record_range):
            start = record_range.start
            for n in range(start, start + record_range.count):
                yield str(n * self.step)

    reader = open_reader(
        "5", DataOptions(), custom=Numbers, custom_params={"step": 10}
    )
    first, _ = reader.ranges(3)
    assert _records(reader, first) == [b"0", b"10", b"20"]
    shuffled = _records(reader, first, shuffle_seed=1)
    assert sorted(shuffled) == [b"0", b"10", b"20"]
    with pytest.raises(ConfigError, match="must return"):
        open_reader("5", DataOptions(), custom=lambda *args: 3)


def test_an_empty_file_has_no_header_and_no_records(tmp_path):
    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").write_text("x,y\n1,2\n")
    paths = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    reader = FileReader(paths, csv_header=True)
    assert reader.metadata.column_names == ["x", "y"]
    assert sum(r.count for r in reader.ranges(10)) == 1
