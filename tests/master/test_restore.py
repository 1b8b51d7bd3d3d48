"""A master that is killed, and the next one that goes on."""

import asyncio
import json
import random
import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_keras.config import ConfigError
from elastic_keras.master import state_file
from elastic_keras.master.side_tasks import wait_until
from elastic_keras.master.states import MetricSum
from elastic_keras.master.tasks import TrainingTasks
from elastic_keras.master.work import Counts
from tests.master.stand_in_shards import StandInShards
from tests.master.stand_ins import (
    Habits,
    StandInWorker,
    make_job,
    ranges,
    run_job,
    states,
)


def _live(folder, shards, *, until=None, seed=0, workers=2, **options):
    """Runs a master until the shards hold so many pushes, then kills all.

    Returns:
        The job, and its exit code where it came to its end.
    """
    former = state_file.read(folder)
    habits = options.pop("habits", None)

    async def main():
        job = make_job(
            folder,
            shards,
            former=former,
            generation=former["generation"] + 1 if former else 0,
            num_workers=workers,
            **options,
        )
        crew = [
            StandInWorker(job, shards, i, random.Random(seed + i), habits)
            for i in range(workers)
        ]
        run = asyncio.create_task(run_job(job, crew))
        if until is not None:
            killed = asyncio.create_task(
                wait_until(shards.changes, lambda: len(shards.log) >= until)
            )
            await asyncio.wait(
                [run, killed], return_when=asyncio.FIRST_COMPLETED
            )
            if not run.done():
                await _die(job)
                return job, None
        return job, await run

    return asyncio.run(main())


async def _die(job):
    """Lets a master write nothing more, as if it were killed."""

    async def nothing():
        pass

    async with job.keeper._lock:
        job.keeper._save = nothing
    others = asyncio.all_tasks() - {asyncio.current_task()}
    while others:
        # Again: `asyncio.wait_for` may swallow a cancellation.
        for task in others:
            task.cancel()
        _, others = await asyncio.wait(others, timeout=0.05)


def _result(folder):
    return json.loads((folder / "result.json").read_text())


_OPTIONS = {
    "plain": {"num_epochs": 3},
    "each epoch": {"num_epochs": 3, "validation": (3, 2)},
    "between": {"num_epochs": 2, "validation": (3,), "evaluation_steps": 4},
    "to a step": {"num_epochs": 9, "validation": (3,), "max_steps": 17},
    "snapshots": {"num_epochs": 2, "snapshot_steps": 3},
    "callbacks": {
        "num_epochs": 2,
        "validation": (3,),
        "habits": Habits(has_callbacks=True),
    },
}
# 2 + 2 + 3 + 1 + 4 batches in an epoch.
_TRAINING = (4, 3, 5, 1, 7)


@pytest.mark.parametrize("kind", _OPTIONS)
@settings(max_examples=12, deadline=None)
@given(
    kills=st.lists(st.integers(1, 60), max_size=3),
    seed=st.integers(0, 9999),
    workers=st.integers(1, 3),
)
def test_killed_at_any_moment_and_every_record_is_trained_once(
    tmp_path_factory, kind, kills, seed, workers
):
    folder = tmp_path_factory.mktemp("job")
    shards = StandInShards(max_staleness=seed % 3)
    options = {"training": _TRAINING, "workers": workers, **_OPTIONS[kind]}
    for kill in sorted(kills):
        _live(folder, shards, until=kill, seed=seed, **options)
    _, code = _live(folder, shards, seed=seed + 7, **options)
    assert code == 0, _result(folder)
    result = _result(folder)
    # A ledger holds a key once; nothing was pushed twice or left out.
    batches = {
        (epoch, task, batch)
        for epoch in range(options["num_epochs"])
        for task, count in enumerate(_TRAINING)
        for batch in range(-(-count // 2))
    }
    if "max_steps" in options:
        assert [len(ledger) for ledger in shards.ledgers] == [17, 17]
        assert shards.ledgers[0] == shards.ledgers[1]
    else:
        assert all(set(ledger) == batches for ledger in shards.ledgers)
        assert result["records_trained"] == result["records_expected"]
        assert result["records_trained"] == 20 * options["num_epochs"]
    steps = [point["step"] for point in result["evaluations"]]
    wanted = {
        "each epoch": [12, 24, 36],
        "callbacks": [12, 24],
        "between": [4, 8, 12, 16, 20, 24],
        "to a step": [12, 17],
    }
    assert steps == wanted.get(kind, [])
    # A cut between two shards' pushes of a batch is no snapshot.
    assert all(first == second for first, second in shards.committed)


def test_numbers_only_grow(tmp_path):
    shards = StandInShards()
    first, _ = _live(tmp_path, shards, until=4, training=_TRAINING)
    before = max(shards.numbers)
    members = {m for _, _, listed in shards.lists for m in listed}
    del shards.lists[:]
    second, code = _live(tmp_path, shards, training=_TRAINING)
    assert code == 0
    assert all(number > before for _, number, _ in shards.lists)
    later = {m for _, _, listed in shards.lists for m in listed}
    assert later
    assert min(later) > max(members)
    # Members of the former master hold nobody back, whoever comes first.
    assert all(listed == () for _, _, listed in shards.lists[:2])
    assert second.generation == first.generation + 1 == 1


def test_what_was_found_out_before_stays(tmp_path):
    shards = StandInShards()
    options = {
        "training": _TRAINING,
        "validation": (3,),
        "num_epochs": 4,
        "early_stopping_patience": 2,
        "habits": Habits(evaluation=lambda step: float(step)),
    }
    # In the second epoch, after an evaluation that was the best so far.
    _live(tmp_path, shards, until=2 * 12 + 3, **options)
    _, code = _live(tmp_path, shards, **options)
    result = _result(tmp_path)
    assert code == 0
    assert [e["step"] for e in result["evaluations"]] == [12, 24, 36]
    assert result["ended_by"] == "early_stopping"
    assert [e["epoch"] for e in result["history"]] == [1, 2, 3]


def test_other_data_is_refused(tmp_path):
    shards = StandInShards()
    _live(tmp_path, shards, until=4, training=_TRAINING)
    kept = (tmp_path / state_file.NAME).read_text()
    _, code = _live(tmp_path, shards, training=(4, 3, 5, 1, 8))
    assert code == 2
    assert "not those that the job began with" in _result(tmp_path)["error"]
    # The first data's master may still go on.
    former, now = json.loads(kept), state_file.read(tmp_path)
    assert now["flow"] == json.loads(former["state"])["flow"]
    _, code = _live(tmp_path, shards, training=_TRAINING)
    assert code == 0


def test_a_state_that_cannot_be_written_ends_nothing(tmp_path, caplog):
    shards = StandInShards()
    (tmp_path / state_file.NAME).mkdir()

    async def main():
        job = make_job(tmp_path, shards, num_epochs=2)
        code = await run_job(job, [StandInWorker(job, shards, 0)])
        return code, job.status().message

    code, message = asyncio.run(main())
    assert code == 0
    assert "master.json cannot be written" in message
    assert caplog.text.count("cannot be written") == 1


def test_a_snapshot_that_cannot_be_written_ends_no_training(tmp_path):
    shards = StandInShards()
    shards.write_error = OSError(28, "No space left on device")

    async def main():
        job = make_job(tmp_path, shards, snapshot_steps=2, num_epochs=2)
        run = asyncio.create_task(run_job(job, [StandInWorker(job, shards, 0)]))
        await wait_until(shards.changes, lambda: len(shards.cuts) == 2)
        trouble = job.status().message
        shards.write_error = None
        return await run, trouble, job

    code, trouble, job = asyncio.run(main())
    assert code == 0
    assert trouble in [
        f"No snapshot at step {step}: [Errno 28] No space left on device"
        for step in (2, 4)
    ]
    assert job.status().message == ""
    assert len(list((tmp_path / "snapshots").glob("step-*"))) >= 1


def test_snapshots_by_time_are_cut_at_one_ledger(tmp_path):
    shards = StandInShards(max_staleness=3)

    async def main():
        job = make_job(
            tmp_path,
            shards,
            training=(9,) * 40,
            num_epochs=30,
            snapshot_secs=0.02,
            keep_snapshots=2,
        )
        crew = [
            StandInWorker(job, shards, i, random.Random(i)) for i in range(3)
        ]
        return await run_job(job, crew)

    assert asyncio.run(main()) == 0
    assert len(shards.cuts) > 2
    assert all(first == second for first, second in shards.committed)
    assert any(0 < len(first) < 600 for first, _ in shards.committed)
    assert shards.calls.count("commit [3, 3]") > 2
    kept = sorted((tmp_path / "snapshots").glob("step-*"))
    assert len(kept) == 2
    state = state_file.read(kept[0])
    assert state["flow"]["tasks"]["epochs"]


@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    order=st.integers(0, 10**6),
    shuffle=st.booleans(),
)
def test_tasks_restored_from_any_prefix(counts, order, shuffle):
    order = random.Random(order)

    def make():
        made = TrainingTasks(
            ranges(*counts),
            num_epochs=3,
            seed=5,
            shuffle=shuffle,
            leases=iter(range(10**6)),
        )
        made.allow(2)
        return made

    tasks, done = make(), []
    while (lease := tasks.take(0)) is not None:
        chance = order.random()
        if chance < 0.2:
            state = json.loads(json.dumps(tasks.to_state()))
            tasks = make()
            tasks.restore(state, -1)
            assert set(tasks.undone()).isdisjoint(done)
            continue
        if chance < 0.4:
            # Another one before this one is done.
            other = tasks.take(1)
            if other is not None:
                done.append((other.item.epoch, other.item.task))
                tasks.finish(other, _counts(other))
        done.append((lease.item.epoch, lease.item.task))
        tasks.finish(lease, _counts(lease))
    everything = [(e, t) for e in range(3) for t in range(len(counts))]
    assert sorted(done) == everything
    assert tasks.counts().records == 3 * sum(counts)
    assert tasks.epochs_done == 3
    assert tasks.undone() == []


def test_tasks_that_come_first_are_found_wherever_they_are():
    def make():
        return TrainingTasks(
            ranges(1, 1, 1, 1),
            num_epochs=1,
            seed=0,
            shuffle=False,
            leases=iter(range(99)),
        )

    tasks = make()
    tasks.allow(0)
    for _ in range(4):
        tasks.take(0)
    state, tasks = tasks.to_state(), make()
    tasks.restore(state, 0)
    assert tasks.waiting == 4
    assert tasks.take(0, first=[(0, 2)]).item.task == 2
    assert tasks.waiting == 3
    assert [tasks.take(0).item.task for _ in range(3)] == [0, 1, 3]
    assert tasks.take(0) is None


@pytest.mark.parametrize(
    ("heartbeat", "silence"), [(1.0, 10.0), (0.2, 2.0), (0.05, 2.0)]
)
def test_a_worker_that_misses_ten_heartbeats_is_lost(
    tmp_path, heartbeat, silence
):
    job = make_job(tmp_path, StandInShards(), heartbeat_secs=heartbeat)
    job.membership.join(0, 0.0, has_callbacks=False)
    assert not job.membership.expired(silence - 0.01)
    assert job.membership.expired(silence + 0.01)


def _counts(lease):
    return Counts(records=lease.item.range.count)


def test_metric_states_as_text():
    added = MetricSum()
    added.add(states(ranges(4)[0]))
    again = MetricSum.from_state(added.to_state())
    assert again.to_proto() == added.to_proto()
    with pytest.raises(ValueError, match="Not metric states"):
        MetricSum.from_state("AAAA")


@pytest.mark.parametrize("damage", ["torn", "changed", "other", "list"])
def test_a_damaged_state_is_refused(damage):
    with tempfile.TemporaryDirectory() as folder:
        assert state_file.read(folder) is None
        state_file.write(folder, {"a": 1})
        assert state_file.read(folder) == {"a": 1}
        path = f"{folder}/{state_file.NAME}"
        with open(path) as file:
            text = file.read()
        damaged = {
            "torn": text[:-5],
            "changed": text.replace("1}", "2}"),
            "other": text.replace('"format": 1', '"format": 9'),
            "list": "[]",
        }
        with open(path, "w") as file:
            file.write(damaged[damage])
        with pytest.raises(ConfigError, match="cannot be read"):
            state_file.read(folder)
