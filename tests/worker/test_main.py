"""The worker's process against a master that answers by a script."""

import asyncio
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

import pytest

from elastic_keras.config import JobConfig
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import master_pb2, tensor_pb2
from tests.worker.stand_ins import MODULE, PATIENCE, Shards

pytestmark = pytest.mark.end_to_end

_STARTING = 3 * PATIENCE


class _Master:
    """A master's service; hands out the given tasks, then waits."""

    def __init__(self, source, tasks):
        self._tasks = list(tasks)
        self._sample = master_pb2.RecordRange(
            source=source, start=0, count=4, byte_start=0, byte_end=24
        )
        self.joined = threading.Event()
        self.asked = threading.Event()
        self.left = threading.Event()
        self.reports = []
        self.heartbeats = []
        self.forget = False

    async def Join(self, request):  # noqa: N802
        self.joined.set()
        self.forget = False
        return master_pb2.WorkerJoinReply(
            worker=7, chief=True, sample=self._sample
        )

    async def GetTask(self, request):  # noqa: N802
        if self._tasks:
            return self._tasks.pop(0)
        self.asked.set()
        await asyncio.sleep(0.2)
        return master_pb2.Task(kind=master_pb2.TASK_WAIT)

    async def ReportTask(self, request):  # noqa: N802
        self.reports.append(request)
        return tensor_pb2.Empty()

    async def ReserveSteps(self, request):  # noqa: N802
        return master_pb2.ReserveStepsReply(granted=request.want)

    async def Heartbeat(self, request):  # noqa: N802
        self.heartbeats.append(request)
        return master_pb2.HeartbeatReply(chief=True)

    async def Leave(self, request):  # noqa: N802
        assert request.worker == 7
        self.left.set()
        return tensor_pb2.Empty()

    async def WatchJob(self, request):  # noqa: N802
        yield master_pb2.JobStatus()

    async def ScaleJob(self, request):  # noqa: N802
        return tensor_pb2.Empty()

    async def StopJob(self, request):  # noqa: N802
        return tensor_pb2.Empty()

    async def DescribeJob(self, request):  # noqa: N802
        return master_pb2.JobDescription()


@contextlib.contextmanager
def _served(master, address):
    """Serves a master from a thread of its own."""
    started = threading.Event()
    loops = []

    async def serve():
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        server = rpc.make_server(
            master, master_pb2.DESCRIPTOR.services_by_name["Master"], address
        )
        await server.start()
        started.set()
        await stop.wait()
        await server.stop(None)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(PATIENCE)
    try:
        yield
    finally:
        loop, stop = loops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)


def _task(kind, source, **fields):
    return master_pb2.Task(
        kind=kind,
        lease=3,
        range=master_pb2.RecordRange(
            source=source, start=0, count=4, byte_start=0, byte_end=24
        ),
        shuffle_seed=-1,
        **fields,
    )


class _Job:
    """A job's directory with a worker process."""

    def __init__(self, folder, ps_addresses=(), **options):
        self.folder = pathlib.Path(folder)
        self.sockets = tempfile.TemporaryDirectory(prefix="ek-")
        self.address = f"unix:{self.sockets.name}/master.sock"
        (self.folder / "mine.py").write_text(MODULE)
        self.source = str(self.folder / "some.csv")
        pathlib.Path(self.source).write_text(
            "".join(f"{i},{i}.5\n" for i in range(4))
        )
        config = JobConfig.from_options(
            model_zoo=str(folder),
            model_def="mine",
            training_data=self.source,
            validation_data=self.source,
            minibatch_size=2,
            heartbeat_secs=0.1,
            **options,
        )
        values = {
            **vars(config),
            "job_id": "job-1",
            "master_address": self.address,
            "ps_addresses": tuple(ps_addresses),
        }
        (self.folder / "config.json").write_text(JobConfig(**values).to_json())

    def start(self, *flags):
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "elastic_keras.worker.main",
                *(flags or (f"--job_dir={self.folder}", "--index=0")),
            ],
            cwd=pathlib.Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _end(process):
    """Waits for a process; returns its exit code and output."""
    try:
        output, _ = process.communicate(timeout=_STARTING)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        raise AssertionError(f"the worker hangs: {output}") from None
    return process.returncode, output


def test_it_trains_evaluates_and_ends_with_the_job(tmp_path):
    with Shards(2) as shards:
        job = _Job(tmp_path, shards.addresses)
        for shard in shards.shards:
            shard.set_members(1, [5])
        master = _Master(
            job.source,
            [
                _task(master_pb2.TASK_TRAIN, job.source, member=5),
                _task(master_pb2.TASK_EVALUATE, job.source),
                master_pb2.Task(kind=master_pb2.TASK_STOP),
            ],
        )
        with _served(master, job.address):
            code, output = _end(job.start())
        assert code == 0, output
        assert [s.report().batches for s in shards.shards] == [2, 2]
        assert sorted(shards.rows()) == [0, 1, 2, 3]
    train, evaluate = master.reports
    assert (train.batches, train.examples, train.records) == (2, 4, 4)
    assert (evaluate.batches, evaluate.error) == (2, "")
    assert set(evaluate.states.metrics) == {"loss"}
    assert sum(h.steps for h in master.heartbeats) <= 2


def test_told_to_end_it_hands_back_and_goes(tmp_path):
    with Shards(1) as shards:
        job = _Job(tmp_path, shards.addresses)
        master = _Master(job.source, [])
        with _served(master, job.address):
            process = job.start()
            assert master.asked.wait(_STARTING), _end(process)
            process.send_signal(signal.SIGTERM)
            code, _ = _end(process)
            assert master.left.is_set()
    assert code == -signal.SIGTERM
    assert master.heartbeats


def test_told_to_end_before_it_joined_it_goes(tmp_path):
    process = _Job(tmp_path).start()
    # It gets so far without anybody to join.
    os.kill(process.pid, signal.SIGTERM)
    code, _ = _end(process)
    assert code in (128 + signal.SIGTERM, -signal.SIGTERM)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--index=0",), "--job_dir"),
        (("--job_dir=/nowhere", "--index=0"), "config.json"),
        (("--job_dir=/nowhere", "--index=0", "--other"), "--other"),
    ],
)
def test_wrong_use_is_told_in_a_line(tmp_path, flags, message):
    code, output = _end(_Job(tmp_path).start(*flags))
    assert code == 2
    last = output.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last


def test_a_module_that_raises_ends_with_its_traceback(tmp_path):
    job = _Job(tmp_path)
    (tmp_path / "mine.py").write_text("raise KeyError('my own mistake')\n")
    code, output = _end(job.start())
    assert code == 1
    assert output.strip().splitlines()[-1] == "KeyError: 'my own mistake'"
    assert "elastic_keras/worker" not in output


def test_a_hang_before_the_first_step_ends_the_worker(tmp_path):
    job = _Job(tmp_path, step_timeout_secs=5.0)
    with open(tmp_path / "mine.py", "a") as file:
        file.write(
            "\ndef dataset_fn(dataset, mode, metadata):\n"
            "    import threading\n"
            "    threading.Event().wait()\n"
        )
    master = _Master(job.source, [])
    with _served(master, job.address):
        code, output = _end(job.start())
        assert master.left.is_set()
    assert code == -signal.SIGTERM
    assert "is at reading the first batch of records for" in output
