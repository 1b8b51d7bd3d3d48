import pytest

from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.task_run import TaskRun


@pytest.fixture
def reports():
    return []


@pytest.fixture
def run(reports):
    task = master_pb2.Task(task=4, epoch=2, lease=9)
    return TaskRun(task, reports.append)


def test_it_is_reported_when_its_last_batch_has_landed(run, reports):
    run.begin()
    run.begin()
    run.landed()
    run.end(master_pb2.ReportTaskRequest(batches=2))
    assert reports == []
    run.landed()
    assert reports == [master_pb2.ReportTaskRequest(lease=9, batches=2)]
    assert run.reported
    assert not run.dropped


def test_a_dropped_task_is_handed_back_not_done(run, reports):
    run.begin()
    run.drop()
    run.end(master_pb2.ReportTaskRequest(batches=1))
    run.landed()
    assert run.dropped
    assert reports == []
    run.release()
    assert [report.released for report in reports] == [True]


def test_a_task_whose_batches_are_computed_is_not_dropped(run, reports):
    run.begin()
    run.end(master_pb2.ReportTaskRequest(batches=1))
    run.drop()
    assert not run.dropped
    run.landed()
    assert [report.batches for report in reports] == [1]


def test_without_a_batch_it_is_reported_at_its_end(run, reports):
    run.end(master_pb2.ReportTaskRequest())
    assert [report.lease for report in reports] == [9]


def test_a_batch_that_lands_early_does_not_end_it(run, reports):
    run.begin()
    run.landed()
    assert reports == []


def test_it_fails_once(run, reports):
    run.begin()
    run.fail("Traceback ...", fatal=True, exit_code=2)
    run.fail("another")
    run.release()
    run.end(master_pb2.ReportTaskRequest())
    run.landed()
    assert reports == [
        master_pb2.ReportTaskRequest(
            lease=9, error="Traceback ...", fatal=True, exit_code=2
        )
    ]
    assert run.dropped


def test_released_is_no_failure(run, reports):
    run.release()
    assert reports == [master_pb2.ReportTaskRequest(lease=9, released=True)]
    assert run.dropped


def test_an_abandoned_one_says_nothing(run, reports):
    run.abandon()
    run.end(master_pb2.ReportTaskRequest())
    run.fail("too late")
    assert reports == []
    assert run.dropped


def test_the_key_names_the_batch_in_the_ledger(run):
    assert run.key(7) == (2, 4, 7)
