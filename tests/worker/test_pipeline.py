"""The pipeline's threads against real shards."""

import threading

import pytest

from elastic_keras.config import StalenessOptions
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.pipeline import Outcome
from tests.worker import stand_ins
from tests.worker.pipelines import MODEL, assert_applied, make_pipeline, run
from tests.worker.stand_ins import (
    PATIENCE,
    Data,
    Ones,
    ScriptedMaster,
    Shards,
    batch,
    train_task,
)


@pytest.mark.parametrize("num_shards", [1, 3])
def test_every_batch_is_applied_once_and_then_reported(num_shards):
    batches = {0: [[1, 2], [2, 3], [9]], 1: [[1, 7, 8]]}
    with Shards(num_shards) as shards:
        master = ScriptedMaster(
            shards.shards, [train_task(0, 1), train_task(1, 2)]
        )
        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data(
                [batch(ids, num_shards) for ids in batches[task.task]]
            ),
        )
        assert run(pipeline) is Outcome.JOB_OVER
        assert_applied(shards, [*batches[0], *batches[1]])
    assert [(r.lease, r.batches, r.examples) for r in master.reports] == [
        (1, 3, 6),
        (2, 1, 2),
    ]
    assert master.reports[0].records == 7
    assert not any(r.error or r.released for r in master.reports)


def test_synchronous_steps_read_every_earlier_update():
    seen = []

    def look(train, pulled, again):
        seen.append((pulled.rows[0][0, 0], pulled.dense.dense[0]))

    with Shards(2) as shards:
        master = ScriptedMaster(shards.shards, [train_task(0, 1)])
        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([5, 6], 2)] * 6),
            Ones(MODEL, look),
        )
        run(pipeline)
    assert seen == [(-i, -i) for i in range(6)]


def test_the_bound_holds_and_is_used():
    versions = []

    def look(train, pulled, again):
        versions.append(pulled.versions[0])

    options = StalenessOptions(max_staleness=2)
    with Shards(1, options) as shards:
        master = ScriptedMaster(shards.shards, [train_task(0, 1)])
        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([5], 1)] * 20),
            Ones(MODEL, look),
            window=4,
        )
        run(pipeline)
        assert shards.shards[0].report().staleness_max <= 2
    assert all(version >= i - 2 for i, version in enumerate(versions))


def test_two_workers_recompute_what_is_refused():
    options = StalenessOptions(max_staleness=1, staleness_policy="recompute")
    both = threading.Barrier(2)
    first = threading.local()

    def meet(train, pulled, again):
        # Both hold gradients of the same version once, at least.
        if not again and not getattr(first, "met", False):
            first.met = True
            both.wait(PATIENCE)

    with Shards(2, options) as shards:
        shards.shards[0].set_members(1, [1, 2])
        shards.shards[1].set_members(1, [1, 2])
        threads, computings = [], []
        for worker in (1, 2):
            task = train_task(worker, worker, member=worker)
            tasks = [task]
            master = _Fixed(tasks)
            pipeline, computing = make_pipeline(
                shards,
                master,
                lambda task: Data([batch([5, 6, task.task], 2)] * 15),
                Ones(MODEL, meet),
                window=2,
            )
            computings.append(computing)
            threads.append(threading.Thread(target=pipeline.run, daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the pipeline hangs"
        assert_applied(shards, [[5, 6, 1]] * 15 + [[5, 6, 2]] * 15)
        reports = [shard.report() for shard in shards.shards]
    assert all(report.staleness_max <= 1 for report in reports)
    refused = sum(report.refused_pushes for report in reports)
    again = sum(entry[1] is True for c in computings for entry in c.computed)
    assert refused >= again >= 1


class _Fixed:
    """A master that hands out given tasks and no member numbers."""

    def __init__(self, tasks):
        self._tasks = tasks
        self._done = threading.Event()

    def get_task(self, *, interrupted=False):
        if self._tasks:
            return self._tasks.pop(0)
        self._done.wait(PATIENCE)
        return master_pb2.Task(kind=master_pb2.TASK_STOP)

    def report(self, request):
        self._done.set()


def test_a_resumed_task_goes_on_where_a_shard_lacks_a_batch():
    batches = [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]]
    with Shards(2) as shards:
        client = shards.client(MODEL)
        made = batch(batches[0], 2)
        client.push(stand_ins.push_of_ones(MODEL, (0, 0, 0), made))
        client.push(stand_ins.push_of_ones(MODEL, (0, 0, 1), made), [1])
        last = Ones(MODEL)
        master = ScriptedMaster(shards.shards, [train_task(0, 1, resumed=True)])
        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch(b, 2) for b in batches]),
            last,
        )
        run(pipeline)
        assert_applied(shards, batches)
        assert [s.report().duplicate_pushes for s in shards.shards] == [0, 1]
    assert last.computed == ["begin", ((0, 0, 1), False), ((0, 0, 2), False)]
    # A report speaks of the whole task.
    assert master.reports[0].batches == 3


def test_an_evaluation_interrupts_at_the_exact_step():
    evaluated = []
    evaluation = master_pb2.Task(kind=master_pb2.TASK_EVALUATE, lease=50)
    with Shards(2) as shards:
        master = ScriptedMaster(shards.shards, [train_task(0, 1)])
        master.available = 5
        master.evaluations = [evaluation]

        def evaluate(task):
            evaluated.append(
                (
                    task.lease,
                    [s.report().batches for s in shards.shards],
                    dict(master.settled),
                )
            )

        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([3, 4], 2)] * 9),
            other_task=evaluate,
            reserve=True,
        )
        assert run(pipeline) is Outcome.JOB_OVER
        assert_applied(shards, [[3, 4]] * 9)
    assert evaluated == [(50, [5, 5], {"done": 5, "returned": 0})]
    assert master.settled["done"] == 9
    assert [(r.lease, r.batches) for r in master.reports] == [(1, 9)]


def test_training_stops_at_the_exact_step():
    with Shards(2) as shards:
        master = ScriptedMaster(
            shards.shards, [train_task(0, 1), train_task(1, 2)]
        )
        master.available = 4
        master.stopped = True
        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([3, 4], 2)] * 9),
            reserve=True,
            window=3,
        )
        assert run(pipeline) is Outcome.JOB_OVER
        assert_applied(shards, [[3, 4]] * 4)
    assert master.settled == {"done": 4, "returned": 0}
    assert all(r.released for r in master.reports)


class _Counting(Ones):
    """Reports as states how many batches of the task it has computed."""

    def begin_task(self):
        super().begin_task()
        self._batches = 0

    def compute(self, train, pulled, *, again):
        made = super().compute(train, pulled, again=again)
        self._batches += not again
        return made

    def end_task(self):
        made = master_pb2.MetricStates()
        made.metrics["batches"].tensors.add(shape=[self._batches])
        return made


@pytest.mark.parametrize("reserve", [False, True])
@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("threaded", [False, True])
def test_a_callback_stops_training_after_its_batch(reserve, window, threaded):
    def stop(train, pulled, again):
        if (train.run.task.task, train.index) == (1, 2):
            master.stopped = True
            # In a hook of this worker's, or by word of the master's.
            if threaded:
                thread = threading.Thread(target=pipeline.stop_training)
                thread.start()
                thread.join(PATIENCE)
            else:
                pipeline.stop_training()

    options = StalenessOptions(max_staleness=3)
    with Shards(2, options) as shards:
        tasks = [train_task(task, task + 1) for task in range(4)]
        master = ScriptedMaster(shards.shards, tasks)
        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([task.task], 2)] * 20),
            _Counting(MODEL, stop),
            window=window,
            reserve=reserve,
        )
        assert run(pipeline) is Outcome.JOB_OVER
        assert_applied(shards, [[0]] * 20 + [[1]] * 3)
    done, *others = master.reports
    assert (done.lease, done.batches, done.released) == (1, 20, False)
    assert all(report.released for report in others)
    batches = {
        report.lease: report.states.metrics["batches"].tensors[0].shape[0]
        for report in others
        if report.states.metrics
    }
    assert batches == {2: 3}


def test_other_tasks_wait_until_every_push_has_landed():
    seen = []
    merge = master_pb2.Task(kind=master_pb2.TASK_MERGE, lease=9)
    with Shards(1) as shards:
        master = ScriptedMaster(shards.shards, [train_task(0, 1), merge])

        def other(task):
            seen.append((task.kind, shards.shards[0].report().batches))

        pipeline, _ = make_pipeline(
            shards,
            master,
            lambda task: Data([batch([1], 1)] * 4),
            other_task=other,
        )
        run(pipeline)
    assert seen == [(master_pb2.TASK_MERGE, 4)]
