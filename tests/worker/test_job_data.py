import itertools
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.data.errors import BadRecord
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.job_data import JobData, count_examples
from elastic_keras.worker.model import prepare
from elastic_keras.worker.step import Steps
from elastic_keras.zoo.module import load
from tests.worker.stand_ins import MODULE


@pytest.fixture
def data(tmp_path):
    """Returns the data of a job with one file of 10 records."""
    return _data(tmp_path)


def _data(tmp_path, broken=(), **options):
    """Returns the same data with records in which the id is no number."""
    (tmp_path / "mine.py").write_text(MODULE)
    lines = "".join(f"{'x' if i in broken else i},{i}.5\n" for i in range(10))
    (tmp_path / "some.csv").write_text(lines)
    path = str(tmp_path / "some.csv")
    config = JobConfig.from_options(
        model_zoo=str(tmp_path),
        model_def="mine",
        training_data=path,
        validation_data=path,
        minibatch_size=4,
        **options,
    )
    zoo = load(config.model)
    data = JobData(config, zoo, num_shards=2)
    data.path = path
    data.model = zoo.custom_model()
    data.loss = zoo.loss
    return data


def _range(data, count=10):
    return master_pb2.RecordRange(
        source=data.path, start=0, count=count, byte_start=0, byte_end=count * 6
    )


def _serve(data):
    prepared = prepare(
        data.model,
        data.loss,
        keras.optimizers.SGD(0.1),
        None,
        sample_batch=data.sample(_range(data)),
        seed=0,
        threshold_bytes=2 << 20,
    )
    data.serve(prepared, Steps(prepared))


def _task(data, kind=master_pb2.TASK_TRAIN, seed=-1):
    return master_pb2.Task(kind=kind, range=_range(data), shuffle_seed=seed)


def _read(opened):
    """Returns ids and labels of all batches, ids put together again."""
    ids, labels = [], []
    for batch in opened.batches():
        features, label = batch.data
        looked_up = batch.ids[0].ids[np.asarray(batch.inverse[0])]
        np.testing.assert_array_equal(looked_up, features["id"])
        assert batch.examples == len(looked_up)
        ids.append(looked_up.tolist())
        labels.extend(label.numpy().reshape(-1).tolist())
    return ids, labels


def test_the_sample_is_the_first_batch(data):
    features, labels = data.sample(_range(data))
    assert features["id"].numpy().tolist() == [0, 1, 2, 3]
    assert labels.shape == (4, 1)


def test_without_a_range_it_finds_a_sample_itself(data):
    features, _ = data.sample(master_pb2.RecordRange())
    assert features["id"].numpy().tolist() == [0, 1, 2, 3]


def test_batches_come_with_their_ids_by_shard(data):
    _serve(data)
    opened = data.open(_task(data))
    ids, labels = _read(opened)
    assert ids == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert labels == [i + 0.5 for i in range(10)]
    report = opened.report()
    assert (report.records, report.bad_records) == (10, 0)


def test_a_seed_shuffles_in_the_same_way_each_time(data):
    _serve(data)
    first = _read(data.open(_task(data, seed=3)))
    assert first == _read(data.open(_task(data, seed=3)))
    assert first != _read(data.open(_task(data, seed=4)))
    assert sorted(first[1]) == [i + 0.5 for i in range(10)]


def test_evaluation_has_a_mode_of_its_own(data):
    _serve(data)
    _, labels = _read(data.open(_task(data, master_pb2.TASK_EVALUATE)))
    assert labels == [i + 100.5 for i in range(10)]


def test_broken_records_are_wrong_use(data, tmp_path):
    _serve(data)
    (tmp_path / "some.csv").write_text("changed\n")
    with pytest.raises(ConfigError, match=r"some\.csv"):
        data.open(_task(data))


def test_a_first_record_that_cannot_be_parsed_is_said(tmp_path):
    data = _data(tmp_path, broken=[0])
    with pytest.raises(BadRecord) as caught:
        data.sample(_range(data))
    assert str(caught.value) == (
        "Broken record: dataset_fn cannot parse it: Field 0 is not a valid "
        "int64: x (if it names the columns, say --csv_header). Mend the file "
        "or leave such records out with --bad_records=skip. Received: "
        f"{data.path}, record 0, byte 0"
    )


@pytest.mark.parametrize("seed", [-1, 5])
def test_a_later_record_that_cannot_be_parsed_is_said(tmp_path, seed):
    data = _data(tmp_path, broken=[6])
    _serve(data)
    with pytest.raises(BadRecord, match="record 6, byte 36"):
        _read(data.open(_task(data, seed=seed)))


def test_a_sample_without_broken_records(tmp_path):
    data = _data(tmp_path, broken=[0, 2], bad_records="skip")
    features, _ = data.sample(_range(data))
    assert features["id"].numpy().tolist() == [1, 3, 4, 5]


def test_a_first_range_of_which_nothing_can_be_parsed(tmp_path):
    data = _data(tmp_path, broken=[0, 1], bad_records="skip")
    features, _ = data.sample(_range(data, count=2))
    assert features["id"].numpy().tolist() == [2, 3]


@pytest.mark.parametrize(
    "kind", [master_pb2.TASK_TRAIN, master_pb2.TASK_EVALUATE]
)
@pytest.mark.parametrize("seed", [-1, 5])
def test_broken_records_are_left_out(tmp_path, caplog, kind, seed):
    broken = [1, 5, 9]
    data = _data(tmp_path, broken, bad_records="skip")
    _serve(data)
    opened = data.open(_task(data, kind, seed))
    with caplog.at_level(logging.WARNING):
        ids, _ = _read(opened)
    assert sorted(itertools.chain(*ids)) == [0, 2, 3, 4, 6, 7, 8]
    assert [len(batch) for batch in ids] == [4, 3]
    report = opened.report()
    assert (report.records, report.bad_records) == (7, 3)
    assert "some.csv, record 5, byte 30" in caplog.text
    # Who reads the task after this gets the same batches: a worker that
    # has seen it, and another one.
    again = data.open(_task(data, kind, seed))
    assert _read(again)[0] == ids
    assert again.report() == report
    other = _data(tmp_path, broken, bad_records="skip")
    _serve(other)
    assert _read(other.open(_task(other, kind, seed)))[0] == ids


def test_batches_before_a_broken_record_stay_as_they_are(tmp_path):
    data = _data(tmp_path, broken=[9], bad_records="skip")
    _serve(data)
    batches = data.open(_task(data)).batches()
    first = next(batches)
    assert first.data[0]["id"].numpy().tolist() == [0, 1, 2, 3]
    rest = [batch.data[0]["id"].numpy().tolist() for batch in batches]
    assert rest == [[4, 5, 6, 7], [8]]


def test_a_dataset_fn_that_can_parse_nothing_is_not_passed_over(tmp_path):
    data = _data(tmp_path, bad_records="skip")
    (tmp_path / "some.csv").write_text("".join(f"x,{i}\n" for i in range(40)))
    data.path = str(tmp_path / "some.csv")
    whole = master_pb2.RecordRange(
        source=data.path, count=40, byte_start=0, byte_end=10 * 4 + 30 * 5
    )
    with pytest.raises(BadRecord, match="nor the 39 after it"):
        data.sample(whole)


def test_what_is_not_of_a_record_stays_what_it_is(tmp_path):
    data = _data(tmp_path, bad_records="skip")
    (tmp_path / "tables.py").write_text(
        MODULE.replace("return dataset.map(parse)", OF_ALL)
    )
    config = JobConfig.from_options(
        model_zoo=str(tmp_path),
        model_def="tables",
        training_data=data.path,
        bad_records="skip",
    )
    other = JobData(config, load(config.model), num_shards=1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="too many"):
        other.sample(_range(data))


# Raises because of how many records there are.
OF_ALL = """
    def limited(number, example):
        few = tf.debugging.Assert(number < 3, ["too many"])
        with tf.control_dependencies([few]):
            return tf.nest.map_structure(tf.identity, example)
    return dataset.map(parse).enumerate().map(limited)
"""


def _filtered(data, tmp_path, least):
    """Returns the same job, with a filter in its dataset_fn."""
    module = MODULE.replace(
        "return dataset.map(parse)",
        f"return dataset.map(parse).filter(lambda x, y: x['id'] >= {least})",
    )
    (tmp_path / "filtered.py").write_text(module)
    config = JobConfig.from_options(
        model_zoo=str(tmp_path),
        model_def="filtered",
        training_data=data.path,
        minibatch_size=2,
    )
    return JobData(config, load(config.model), num_shards=1)


def test_a_first_range_of_which_a_filter_leaves_nothing(data, tmp_path):
    filtered = _filtered(data, tmp_path, 7)
    features, _ = filtered.sample(_range(data, count=2))
    assert features["id"].numpy().tolist() == [7]


def test_a_filter_that_leaves_nothing_at_all(data, tmp_path):
    filtered = _filtered(data, tmp_path, 10)
    with pytest.raises(ConfigError, match="no batch of any record"):
        filtered.sample(_range(data, count=2))


def test_a_job_without_data_has_no_sample(data):
    empty = JobData(JobConfig(), data._zoo, 1)
    with pytest.raises(ConfigError, match="no data"):
        empty.sample(master_pb2.RecordRange())


@pytest.mark.parametrize(
    "first",
    [
        tf.zeros((5, 3)),
        tf.ragged.constant([[1], [], [2, 3], [], [4]]),
        tf.sparse.from_dense(tf.eye(5)),
    ],
)
def test_examples_are_counted_in_any_kind_of_tensor(first):
    assert count_examples(({"a": first}, tf.zeros((5, 1)))) == 5
