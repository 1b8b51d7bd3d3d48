import asyncio
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.master.stand_in_shards import StandInShards
from tests.master.stand_ins import (
    Habits,
    StandInWorker,
    make_job,
    run_job,
)


def _run(tmp_path, *, workers=2, shards=None, habits=None, **options):
    async def main():
        made = shards or StandInShards()
        job = make_job(tmp_path, made, num_workers=workers, **options)
        crew = [
            StandInWorker(job, made, i, random.Random(i), habits)
            for i in range(workers)
        ]
        code = await run_job(job, crew)
        result = json.loads((tmp_path / "result.json").read_text())
        return code, result, job, crew, made

    return asyncio.run(main())


def test_every_record_of_every_epoch_is_trained(tmp_path):
    code, result, _, crew, _ = _run(tmp_path, num_epochs=3)
    assert code == 0
    assert result["status"] == "succeeded"
    assert result["records_trained"] == result["records_expected"] == 36
    assert result["steps"] == 3 * 7
    assert result["epochs"] == 3
    done = sorted(task for worker in crew for task in worker.trained)
    assert done == [(epoch, task) for epoch in range(3) for task in range(3)]


def test_metrics_of_all_workers_are_added_up(tmp_path):
    _, result, _, crew, _ = _run(
        tmp_path, workers=3, validation=(2, 3, 4, 5), num_epochs=2
    )
    # Records 0..13, the metric is their mean.
    assert result["evaluation"] == {"loss": 6.5}
    # From 1, as people count.
    assert [e["epoch"] for e in result["evaluations"]] == [1, 2]
    assert [e["epoch"] for e in result["history"]] == [1, 2]
    assert [e["values"] for e in result["history"]] == [{"loss": 5.5}] * 2
    assert sum(len(worker.evaluated) for worker in crew) == 8


def test_an_evaluation_of_nothing_is_no_perfect_one(tmp_path):
    code, result, *_ = _run(
        tmp_path, validation=(2, 3), habits=Habits(evaluates=False)
    )
    assert code == 2
    assert result["evaluation"] == {}
    assert "nothing to evaluate" in result["error"]
    assert result["ended_by"] == "error"
    assert "Received: 5 records" in result["error"]


def test_evaluations_fall_on_exact_steps(tmp_path):
    _, result, _, _, shards = _run(
        tmp_path,
        training=(7, 6, 5, 9),
        validation=(3, 3),
        num_epochs=2,
        evaluation_steps=5,
    )
    # 4 + 3 + 3 + 5 batches in an epoch.
    assert [e["step"] for e in result["evaluations"]] == [5, 10, 15, 20, 25, 30]
    assert result["records_trained"] == 54
    assert shards.calls.count("finalize") == 1


@pytest.mark.parametrize("max_steps", [1, 4, 7, 9])
def test_max_steps_is_exact(tmp_path, max_steps):
    code, result, _, _, shards = _run(
        tmp_path, validation=(4,), num_epochs=2, max_steps=max_steps
    )
    assert code == 0
    assert [len(ledger) for ledger in shards.ledgers] == [max_steps] * 2
    assert result["steps"] == max_steps
    assert result["ended_by"] == "max_steps"
    assert result["evaluations"][-1]["step"] == max_steps
    assert result["history"][-1]["step"] == max_steps


def test_max_steps_beyond_the_data_ends_with_the_epochs(tmp_path):
    _, result, *_ = _run(tmp_path, max_steps=1000)
    assert result["ended_by"] == "epochs"
    assert result["records_trained"] == 12


def test_a_user_exception_fails_the_job_after_three_tries(tmp_path):
    tries = []

    def fail(task):
        if task.task == 1:
            tries.append(task.lease)
            return "Traceback ...\nValueError: mine"

    code, result, *_ = _run(tmp_path, habits=Habits(fail=fail))
    assert code == 1
    assert len(tries) == 3
    assert result["status"] == "failed"
    assert result["error"] == "Traceback ...\nValueError: mine"


def test_early_stopping(tmp_path):
    values = {7: 3.0, 14: 2.0, 21: 2.0, 28: 2.5, 35: 1.0}
    _, result, *_ = _run(
        tmp_path,
        validation=(4,),
        num_epochs=9,
        early_stopping_patience=2,
        habits=Habits(evaluation=lambda step: values.get(step, 9.0)),
    )
    assert result["ended_by"] == "early_stopping"
    assert [e["step"] for e in result["evaluations"]] == [7, 14, 21, 28]
    assert result["epochs"] == 4


def test_early_stopping_between_epochs(tmp_path):
    values = {3: 1.0, 6: 2.0}
    _, result, *_ = _run(
        tmp_path,
        validation=(4,),
        num_epochs=9,
        evaluation_steps=3,
        early_stopping_patience=1,
        habits=Habits(evaluation=lambda step: values.get(step, 9.0)),
    )
    # Nothing was trained after the evaluation that ended it.
    assert [e["step"] for e in result["evaluations"]] == [3, 6]
    assert result["ended_by"] == "early_stopping"
    assert result["steps"] == 6


def test_hooks_around_an_evaluation_inside_an_epoch(tmp_path):
    _, _, _, crew, _ = _run(
        tmp_path,
        validation=(4,),
        evaluation_steps=5,
        habits=Habits(has_callbacks=True),
    )
    tests = ["on_test_begin", "on_test_end"]
    assert [hook for hook, _, _ in crew[0].hooks] == [
        "on_train_begin",
        "on_epoch_begin",
        *tests,
        *tests,
        "on_epoch_end",
        "on_train_end",
    ]


def test_an_unknown_early_stopping_metric_names_those_there_are(tmp_path):
    code, result, *_ = _run(
        tmp_path,
        validation=(4,),
        early_stopping_patience=1,
        early_stopping_metric="auk",
    )
    assert code == 2
    assert "takes one of loss" in result["error"]
    assert "'auk'" in result["error"]


def test_hooks_come_in_keras_order(tmp_path):
    _, _, _, crew, _ = _run(
        tmp_path,
        validation=(4,),
        num_epochs=2,
        habits=Habits(has_callbacks=True),
    )
    assert crew[1].hooks == []
    names = [hook for hook, _, _ in crew[0].hooks]
    epoch = ["on_epoch_begin", "on_test_begin", "on_test_end", "on_epoch_end"]
    assert names == ["on_train_begin", *epoch, *epoch, "on_train_end"]
    ends = [logs for hook, _, logs in crew[0].hooks if hook == "on_epoch_end"]
    assert ends == [{"loss": 5.5, "val_loss": 1.5}] * 2


def test_an_epoch_ends_with_its_own_metrics(tmp_path):
    _, _, _, crew, _ = _run(
        tmp_path, num_epochs=2, habits=Habits(has_callbacks=True)
    )
    hooks = crew[0].hooks
    logs = [logs for hook, _, logs in hooks if hook == "on_epoch_end"]
    assert logs == [{"loss": 5.5}] * 2


def test_a_callback_stops_training_after_its_epoch(tmp_path):
    code, result, _, crew, _ = _run(
        tmp_path,
        num_epochs=5,
        habits=Habits(has_callbacks=True, stop_after=1),
    )
    assert code == 0
    assert result["ended_by"] == "callback"
    assert result["epochs"] == 2
    assert crew[0].hooks[-1][0] == "on_train_end"


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("evaluation_steps", [0, 4])
def test_a_batch_hook_ends_the_epoch_as_keras_does(
    tmp_path, workers, evaluation_steps
):
    code, result, _, crew, shards = _run(
        tmp_path,
        workers=workers,
        training=(40, 40, 40),
        validation=(4,),
        num_epochs=5,
        shuffle=False,
        evaluation_steps=evaluation_steps,
        habits=Habits(has_callbacks=True, stop_at=(1, 0, 2)),
    )
    assert code == 0
    assert result["ended_by"] == "callback"
    assert result["epochs"] == 1
    # The others end the steps that they have begun.
    assert 60 + 3 <= result["steps"] <= 60 + 3 * 5
    assert result["records_trained"] == 2 * result["steps"]
    assert [len(ledger) for ledger in shards.ledgers] == 2 * [result["steps"]]
    hooks = [(hook, epoch) for hook, epoch, _ in crew[0].hooks]
    assert hooks[-4:] == [
        ("on_test_begin", 1),
        ("on_test_end", 1),
        ("on_epoch_end", 1),
        ("on_train_end", 1),
    ]
    # Batches of tasks that were not ended are in the epoch's logs.
    (_, _, logs) = crew[0].hooks[-2]
    assert logs.keys() == {"loss", "val_loss"}


def test_a_callback_can_stop_training_at_an_evaluation(tmp_path):
    _, result, *_ = _run(
        tmp_path,
        training=(40,),
        validation=(4,),
        evaluation_steps=5,
        habits=Habits(has_callbacks=True, stop_at_test=True),
    )
    assert result["ended_by"] == "callback"
    assert result["steps"] == 5


def test_averages_are_evaluated_after_finalize(tmp_path):
    shards = StandInShards(uses_ema=True)
    _, result, *_ = _run(
        tmp_path,
        shards=shards,
        validation=(4,),
        num_epochs=2,
        early_stopping_patience=1,
        habits=Habits(evaluation=lambda step: 1.0),
    )
    # The second evaluation of step 14 saw the averages.
    assert result["ended_by"] == "early_stopping"
    steps = [e["step"] for e in result["evaluations"]]
    assert steps in ([7, 14], [7, 14, 14])
    assert "finalize" in shards.calls


def test_a_ledger_that_lacks_a_batch_fails_the_job(tmp_path):
    shards = StandInShards()
    push = shards.push

    def lossy(shard, key, examples, member):
        if shard == 1 and key == (0, 2, 0):
            return push(shard, (0, 2, 0), 1, member)
        return push(shard, key, examples, member)

    shards.push = lossy
    code, result, *_ = _run(tmp_path, shards=shards)
    assert code == 1
    assert result["error"].startswith("Shard 1 holds 11 examples")


def test_a_nonfinite_push_stops_the_job(tmp_path):
    shards = StandInShards()
    shards.nonfinite[1] = 1
    code, result, *_ = _run(tmp_path, shards=shards, num_epochs=500)
    assert code == 1
    assert "Shard 1 refused 1 batches" in result["error"]
    assert result["epochs"] < 500


def test_a_snapshot_that_is_lost_at_the_end_is_told(tmp_path):
    shards = StandInShards()
    shards.write_error = OSError(28, "No space left on device")
    code, result, *_ = _run(tmp_path, shards=shards, validation=(2,))
    assert code == 1
    assert (
        "last parameters cannot be exported. Metrics are in"
        in (result["error"])
    )
    assert "look at logs/ps-*.log. Received: [Errno 28]" in result["error"]
    assert "loss" in result["evaluation"]


def test_stop_job(tmp_path):
    async def main():
        shards = StandInShards()
        job = make_job(tmp_path, shards, num_epochs=10_000)
        worker = StandInWorker(job, shards, 0)
        running = asyncio.create_task(run_job(job, [worker]))
        while not worker.trained:
            await asyncio.sleep(0)
        job.stop("enough")
        return await running

    assert asyncio.run(main()) == 1
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["status"] == "stopped"
    assert result["ended_by"] == "stop"
    assert result["error"] == "enough"


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    workers=st.integers(1, 4),
    max_staleness=st.integers(0, 2),
    training=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    num_epochs=st.integers(1, 3),
    counting=st.sampled_from(
        [
            {},
            {"evaluation_steps": 3},
            {"evaluation_steps": 4, "max_steps": 10},
            {"max_steps": 5},
        ]
    ),
    deaths=st.integers(0, 4),
    has_callbacks=st.booleans(),
)
def test_any_schedule_of_workers_trains_everything_exactly_once(
    tmp_path_factory,
    seed,
    workers,
    max_staleness,
    training,
    num_epochs,
    counting,
    deaths,
    has_callbacks,
):
    """Nobody waits for ever, and the ledgers agree, whoever comes and goes."""
    tmp_path = tmp_path_factory.mktemp("job")
    rng = random.Random(seed)

    async def main():
        shards = StandInShards(max_staleness=max_staleness)
        job = make_job(
            tmp_path,
            shards,
            training=training,
            validation=(3, 2),
            num_epochs=num_epochs,
            num_workers=workers,
            **counting,
        )
        habits = Habits(release=0.02, has_callbacks=has_callbacks)

        living = {}

        async def slot(index):
            worker = living[index] = StandInWorker(
                job, shards, index, random.Random(rng.random()), habits
            )
            await worker.run()

        running = {i: asyncio.create_task(slot(i)) for i in range(workers)}
        whole = asyncio.create_task(job.run())
        for _ in range(deaths):
            for _ in range(rng.randint(5, 120)):
                await asyncio.sleep(0)
            index = rng.randrange(workers)
            if index in living:
                living[index].dead = True
            running[index].cancel()
            for _ in range(rng.randint(0, 20)):
                await asyncio.sleep(0)
            number = [
                w.number for w in job.membership.workers if w.index == index
            ]
            for n in number:
                job.dispatch.lose(n, "killed")
            running[index] = asyncio.create_task(slot(index))
        code = await asyncio.wait_for(whole, 20)
        await asyncio.wait_for(
            asyncio.gather(*running.values(), return_exceptions=True), 20
        )
        return code, shards

    code, shards = asyncio.run(main())
    result = json.loads((tmp_path / "result.json").read_text())
    assert code == 0, result["error"]
    total = sum(-(-n // 2) for n in training) * num_epochs
    wanted = min(total, counting.get("max_steps", total))
    assert [len(ledger) for ledger in shards.ledgers] == [wanted] * 2
    if wanted == total:
        assert result["records_trained"] == sum(training) * num_epochs
    n = counting.get("evaluation_steps")
    steps = [e["step"] for e in result["evaluations"]]
    if n:
        assert steps == sorted({*range(n, wanted + 1, n), wanted})
