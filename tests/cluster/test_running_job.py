"""A job asked from its directory."""

import asyncio
import contextlib
import dataclasses
import json
import threading

import pytest

from elastic_keras.cluster.job_directory import make_job_directory
from elastic_keras.cluster.running_job import RunningJob
from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.wire.rpc import make_server
from tests.cluster.stand_ins import MASTER, Servicer
from tests.monitoring.stand_ins import describe


def _fail(_):
    raise AssertionError("It waited.")


class _Master(Servicer):
    async def DescribeJob(self, request):  # noqa: N802
        return describe()


@contextlib.contextmanager
def _master(address):
    """Serves a job in a thread of its own."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    stop = asyncio.Event()

    async def serve():
        server = make_server(_Master(), MASTER, address, token="secret")
        await server.start()
        ready.set()
        await stop.wait()
        await server.stop(0)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert ready.wait(60)
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@pytest.fixture
def directory(tmp_path):
    """The directory of a job that trains, with its sockets in `sockets`."""
    (tmp_path / "sockets").mkdir()
    config = JobConfig.from_options(
        training_data="x", num_epochs=3, job_dir=str(tmp_path / "job")
    )
    address = f"unix:{tmp_path}/sockets/master.sock"
    made = make_job_directory(config)
    made.write_config(dataclasses.replace(config, master_address=address))
    return made


def _look(directory, pause=_fail, patience=60.0):
    job = RunningJob(str(directory.path), patience=patience, pause=pause)
    with contextlib.closing(job):
        return job.look()


def test_a_running_job_answers(directory, tmp_path):
    directory.write_token("secret")
    with _master(f"unix:{tmp_path}/sockets/master.sock"):
        view = _look(directory)
    assert (view.phase, view.running) == ("training", True)
    assert view.job_dir == str(directory.path)
    assert len(view.workers) == 3


def test_a_wrong_token_is_said(directory, tmp_path):
    directory.write_token("another")
    with (
        _master(f"unix:{tmp_path}/sockets/master.sock"),
        pytest.raises(ConfigError, match="refuses to answer"),
    ):
        _look(directory)


def test_a_job_that_has_ended(directory):
    directory.write_result({"status": "succeeded", "epochs": 2})
    view = _look(directory)
    assert (view.phase, view.running) == ("succeeded", False)
    assert (view.epoch, view.num_epochs) == (2, 3)


def test_a_job_that_ends_while_it_is_asked(directory):
    directory.write_token("secret")
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        directory.write_result({"status": "failed"})

    # Nobody listens at its address.
    assert _look(directory, pause).phase == "failed"
    assert len(pauses) == 1


def test_a_job_without_launcher_and_result(directory):
    with pytest.raises(ConfigError) as caught:
        _look(directory)
    assert str(caught.value) == (
        "The job is not running, and has left no result: its processes are "
        f"gone; see its logs/. Received: job_dir={str(directory.path)!r}"
    )


def test_a_job_whose_launcher_was_killed(directory, tmp_path):
    directory.write_token("secret")
    (tmp_path / "sockets").rmdir()
    with pytest.raises(ConfigError, match="its processes are gone"):
        _look(directory)


def test_a_master_that_never_answers(directory):
    directory.write_token("secret")
    with pytest.raises(ConfigError, match="does not answer: UNAVAILABLE"):
        _look(directory, patience=-1.0)


def test_no_job(tmp_path):
    with pytest.raises(ConfigError, match=r"config\.json"):
        RunningJob(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps([]))
    with pytest.raises(ConfigError, match="Not a job's config"):
        RunningJob(str(tmp_path))
