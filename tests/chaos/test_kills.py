"""Jobs whose processes are killed at random moments, and what comes of it."""

import json
import os
import random

import numpy as np
import pytest

from elastic_keras.snapshots.folder import open_snapshot
from tests.chaos.assailant import ROLES, RunningJob
from tests.end_to_end.harness import write_clicks

pytestmark = [pytest.mark.chaos, pytest.mark.end_to_end]

RECORDS = 2000
SEED = int(os.environ.get("EK_CHAOS_SEED", "0"))
ALONE = (
    "--num_workers=1",
    "--num_ps=1",
    "--max_staleness=0",
    "--deterministic",
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("clicks") / "train.csv"
    write_clicks(path, RECORDS)
    return path


def flags(data, epochs):
    return (
        f"--training_data={data}",
        f"--validation_data={data}",
        f"--num_epochs={epochs}",
        "--evaluation_steps=0",
    )


def parameters(job_dir):
    """Returns the bits of a job's last snapshot: rows by id, and dense."""
    snapshot = open_snapshot(job_dir)
    found = {}
    for number, table in enumerate(snapshot.signature.tables):
        parts = list(snapshot.parts(number, slots=True))
        ids = np.concatenate([part.ids for part in parts])
        order = np.argsort(ids)
        found[f"{table.name}/ids"] = ids[order].tobytes()
        rows = np.concatenate([part.weights for part in parts])
        found[f"{table.name}/rows"] = rows[order].tobytes()
        for name in parts[0].slots:
            slots = np.concatenate([part.slots[name] for part in parts])
            found[f"{table.name}/{name}"] = slots[order].tobytes()
    dense = snapshot.dense()
    found["dense"] = dense.values.tobytes()
    for name, values in dense.slots.items():
        found[f"dense/{name}"] = values.tobytes()
    return found


def result(job, epochs):
    """Returns a job's result, having looked at what must hold of any."""
    assert job.end() == 0, job.told()
    found = json.loads((job.job_dir / "result.json").read_text())
    assert found["status"] == "succeeded"
    assert found["records_trained"] == epochs * RECORDS
    assert found["records_expected"] == epochs * RECORDS
    assert found["steps"] == epochs * 125
    return found


def assault(job, kills, chance):
    """Kills members of all roles in turn; returns how many of each."""
    counts = dict.fromkeys(ROLES, 0)
    for number in range(kills):
        role = ROLES[number % len(ROLES)]
        if not job.wait_for_records(chance.randrange(1, 1500)):
            break
        if not job.kill(role, chance):
            break
        counts[role] += 1
    print(f"seed {SEED}: killed {counts}")
    return counts


def disturbed_and_not(tmp_path, data, epochs, kills, *options):
    chance = random.Random(SEED)
    jobs = {}
    for name in ("peace", "war"):
        job = RunningJob(tmp_path / name, *flags(data, epochs), *options)
        if name == "war":
            counts = assault(job, kills, chance)
            assert sum(counts.values()) == kills, job.told()
        jobs[name] = job, result(job, epochs)
    return jobs


def test_each_role_killed_once_leaves_the_same_bits(tmp_path, data):
    jobs = disturbed_and_not(tmp_path, data, 8, 3, *ALONE)
    _, found = jobs["war"]
    assert all(found["restarts"][role] >= 1 for role in ROLES)
    assert parameters(tmp_path / "war") == parameters(tmp_path / "peace")


@pytest.mark.slow
def test_a_job_that_was_killed_as_a_whole_goes_on(tmp_path, data):
    options = (*flags(data, 6), *ALONE)
    peace = RunningJob(tmp_path / "peace", *options)
    result(peace, 6)
    war = RunningJob(tmp_path / "war", *options)
    assert war.wait_for_records(3000), war.told()
    war.kill_all()
    again = RunningJob(tmp_path / "war", *options)
    result(again, 6)
    assert parameters(tmp_path / "war") == parameters(tmp_path / "peace")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_kills_leave_the_same_bits(tmp_path, data):
    disturbed_and_not(tmp_path, data, 60, 21, *ALONE)
    assert parameters(tmp_path / "war") == parameters(tmp_path / "peace")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_fifty_kills_of_four_workers_and_two_shards(tmp_path, data):
    jobs = disturbed_and_not(
        tmp_path,
        data,
        120,
        50,
        "--num_workers=4",
        "--num_ps=2",
        "--staleness_policy=recompute",
        "--max_staleness=4",
    )
    peace, war = jobs["peace"][1], jobs["war"][1]
    assert war["staleness"]["max"] <= 4
    difference = war["evaluation"]["auc"] - peace["evaluation"]["auc"]
    print(
        f"AUC {peace['evaluation']['auc']:.4f} undisturbed, {difference:+.4f}"
    )
    assert abs(difference) <= 0.003


@pytest.mark.slow
def test_a_journal_that_is_long_is_begun_anew_by_a_snapshot(tmp_path, data):
    job = RunningJob(
        tmp_path / "job",
        *flags(data, 30),
        "--num_workers=1",
        "--num_ps=2",
        "--journal_max_mb=1",
    )
    journals = tmp_path / "job" / "journal"
    largest = 0
    while not job.is_over:
        try:
            files = [f.stat().st_size for f in journals.glob("ps-0/*")]
        except FileNotFoundError:
            continue
        largest = max(largest, sum(files))
        job.wait_for(lambda before=job.records: job.records > before, "step")
    result(job, 30)
    taken = sorted((tmp_path / "job" / "snapshots").glob("step-*"))
    assert len(taken) >= 2
    print(f"largest journal {largest:,} bytes, {[p.name for p in taken]}")
    # A poll of the shards' sizes, and a snapshot's time, later.
    assert 1 << 20 <= largest < 8 << 20
