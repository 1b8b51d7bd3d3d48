import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_keras.config import ConfigError, DataOptions, JobConfig
from elastic_keras.data.reader import RecordRange
from elastic_keras.master.ranges import merged, plan, scan
from elastic_keras.zoo.errors import UserCodeError


class _Reader:
    """Sources of these many records of ten bytes."""

    def __init__(self, *records):
        self._records = records

    def ranges(self, records_per_task):
        self.asked = records_per_task
        return [
            RecordRange(
                f"file-{number}",
                start,
                min(records_per_task, records - start),
                start * 10,
                min(start + records_per_task, records) * 10,
            )
            for number, records in enumerate(self._records)
            for start in range(0, records, records_per_task)
        ]


def _plan(*records, num_workers=2, mergeable=True, **options):
    return plan(
        _Reader(*records),
        DataOptions(**options),
        num_workers=num_workers,
        mergeable=mergeable,
    )


@given(
    records=st.lists(st.integers(1, 50_000), min_size=1, max_size=4),
    batch=st.integers(1, 5000),
    num_workers=st.integers(1, 8),
)
def test_every_record_is_in_one_range(records, batch, num_workers):
    ranges = _plan(*records, minibatch_size=batch, num_workers=num_workers)
    for number, count in enumerate(records):
        mine = [r for r in ranges if r.source == f"file-{number}"]
        ends = [0]
        for r in mine:
            assert r.start == ends[-1]
            assert r.byte_start == r.start * 10
            assert r.byte_end == (r.start + r.count) * 10
            ends.append(r.start + r.count)
        assert ends[-1] == count
        # Only the last task of a file may end with a short batch.
        assert all(r.count % batch == 0 for r in mine[:-1])


def test_small_data_is_shared_between_workers():
    assert len(_plan(8000, minibatch_size=64)) >= 8
    assert len(_plan(8000, minibatch_size=1024)) >= 4
    assert len(_plan(203, minibatch_size=8, num_workers=2)) >= 4
    sizes = {r.count for r in _plan(10_000_000, minibatch_size=64)}
    assert max(sizes) == 256 * 64


def test_the_users_number_is_taken():
    reader = _Reader(100)
    options = DataOptions(records_per_task=7)
    ranges = plan(reader, options, num_workers=2)
    assert reader.asked == 7
    assert [r.count for r in ranges] == [7] * 14 + [2]


def test_ranges_of_a_custom_reader_are_left_alone():
    reader = _Reader(10_000)
    options = DataOptions(minibatch_size=10)
    ranges = plan(reader, options, num_workers=1, mergeable=False)
    assert ranges == reader.ranges(reader.asked)
    assert reader.asked % 10 == 0


def test_only_neighbours_are_joined():
    def range_(source, start, byte_start=-1):
        end = byte_start + 10 if byte_start >= 0 else -1
        return RecordRange(source, start, 1, byte_start, end)

    apart = [
        range_("a", 0, 0),
        range_("a", 1, 11),
        range_("b", 2, 21),
        range_("c", 0),
        range_("c", 1),
    ]
    assert merged(apart, 9) == apart
    close = [range_("a", i, 10 * i) for i in range(5)]
    assert [r.count for r in merged(close, 2)] == [2, 2, 1]


_MODULE = "def custom_model(): ...\n"
_READER = """
from elastic_keras.data.reader import DataReader, RecordRange

class Reader(DataReader):
    def ranges(self, records_per_task):
        return [RecordRange("table", 0, 5)]

    def records(self, record_range):
        return []

def custom_model(): ...
def loss(labels, predictions): ...
def optimizer(): ...
def dataset_fn(dataset, mode, metadata): ...
def custom_data_reader(data_origin, records_per_task, **params):
    if params:
        raise ValueError("mine")
    return Reader()
"""


def _config(tmp_path, module=_MODULE, **options):
    (tmp_path / "mine.py").write_text(module)
    options = {
        "model_def": "mine",
        "model_zoo": str(tmp_path),
        "training_data": str(tmp_path / "*.csv"),
        **options,
    }
    return JobConfig.from_options(**options)


def test_scan_of_files(tmp_path):
    (tmp_path / "a.csv").write_text("1\n2\n3\n")
    (tmp_path / "b.csv").write_text("4\n")
    config = _config(tmp_path, validation_data=str(tmp_path / "b.csv"))
    ranges = scan(config)
    assert [r.count for r in ranges.training] == [3, 1]
    assert [r.count for r in ranges.validation] == [1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"training_data": ""}, "--training_data"),
        ({"training_data": "/nowhere/*.csv"}, "/nowhere"),
        ({"evaluation_steps": 5}, "--evaluation_steps needs"),
        (
            {"early_stopping_patience": 1},
            "--early_stopping_patience needs --early_stopping_metric",
        ),
        (
            {"early_stopping_metric": "auc"},
            "--early_stopping_metric needs --early_stopping_patience",
        ),
        (
            {"early_stopping_patience": 1, "early_stopping_metric": "auc"},
            "--early_stopping_patience needs --validation_data",
        ),
        ({"port": 5000}, "--port needs --transport=tcp"),
        ({"model_def": "another"}, "another"),
    ],
)
def test_what_cannot_work_is_a_config_error(tmp_path, options, message):
    (tmp_path / "a.csv").write_text("1\n")
    with pytest.raises(ConfigError, match=message):
        scan(_config(tmp_path, **options))


def test_scan_with_a_custom_reader(tmp_path):
    config = _config(tmp_path, _READER, training_data="a table")
    assert scan(config).training == [RecordRange("table", 0, 5)]
    failing = dataclasses.replace(
        config, data=dataclasses.replace(config.data, data_reader_params="a=1")
    )
    with pytest.raises(UserCodeError) as caught:
        scan(failing)
    assert "ValueError: mine" in caught.value.traceback_text
