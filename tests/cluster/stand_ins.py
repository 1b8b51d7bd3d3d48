"""Stand-ins for a job's processes: real processes, sockets and signals.

Run as `python stand_ins.py ROLE INDEX JOB_DIR SCENARIO`. The scenario is a
word per role; what each does stands with its function. With `launch` as the
role, the whole job is launched, as `elastic_keras train` would.
"""

import asyncio
import os
import pathlib
import signal
import sys
import threading

from elastic_keras.cluster import exits, lifeline
from elastic_keras.cluster.local import LocalLauncher
from elastic_keras.cluster.restarts import Restarts
from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.wire.proto import master_pb2, ps_pb2, tensor_pb2
from elastic_keras.wire.rpc import make_server

MASTER = master_pb2.DESCRIPTOR.services_by_name["Master"]
SHARD = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]


def command_of(scenario):
    """Returns the launcher's `command_of` for a scenario."""

    def command(role, index, job_dir):
        return [
            sys.executable,
            __file__,
            role,
            str(index),
            str(job_dir),
            scenario,
        ]

    return command


def launcher(scenario):
    """Returns a launcher of stand-ins that does not wait long."""
    return LocalLauncher(
        command_of(scenario), lambda: Restarts(limit=3, first_delay=0.01)
    )


class Servicer:
    """Answers every method of a service with an empty message."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        async def answer(request):
            if name == "GetStatus":
                return ps_pb2.ShardStatus()
            return tensor_pb2.Empty()

        return answer


class MasterServicer(Servicer):
    """A master whose job ends when the scenario says so."""

    def __init__(self, job_dir, scenario):
        self._job_dir = job_dir
        self._scenario = scenario
        self._stopped = asyncio.Event()

    async def StopJob(self, request):  # noqa: N802
        if "deaf" not in self._scenario:
            self._stopped.set()
        return tensor_pb2.Empty()

    async def Leave(self, request):  # noqa: N802
        with open(self._job_dir / "left", "a") as file:
            file.write(f"{request.index} {request.pid}\n")
        return tensor_pb2.Empty()

    async def WatchJob(self, request):  # noqa: N802
        yield master_pb2.JobStatus(phase="training", steps=1)
        (self._job_dir / "watched").touch()
        if "scales" in self._scenario:
            yield master_pb2.JobStatus(phase="training", workers_wanted=3)
            while not _runs(self._job_dir, "worker-2"):
                await asyncio.sleep(0.02)
            yield master_pb2.JobStatus(phase="training", workers_wanted=1)
            left = self._job_dir / "left"
            while not left.exists() or len(left.read_text().split()) < 4:
                await asyncio.sleep(0.02)
        if "leaves" in self._scenario:
            # As a master does that is told to end, but at a known moment.
            (self._job_dir / "result.json").write_text(
                '{"status": "stopped", "error": "told to end", "steps": 5}'
            )
        while not self._over():
            if self._stopped.is_set():
                (self._job_dir / "over").touch()
                yield master_pb2.JobStatus(phase="stopped")
                return
            await asyncio.sleep(0.02)
        (self._job_dir / "over").touch()
        if "raises" in self._scenario:
            yield master_pb2.JobStatus(
                phase="failed", exit_code=1, error="Traceback: theirs"
            )
            return
        yield master_pb2.JobStatus(phase="succeeded", steps=7)

    def _over(self):
        if "endless" in self._scenario:
            return False
        runs = 2 if "restart" in self._scenario else 1
        name = "ps-1" if "shot" in self._scenario else "worker-0"
        return _runs(self._job_dir, name) >= runs


def _runs(job_dir, name):
    path = job_dir / f"{name}.pids"
    return len(path.read_text().split()) if path.exists() else 0


async def _serve(servicer, service, address):
    # Leaves on SIGTERM as every process does: at once.
    server = make_server(
        servicer, service, address, token=os.environ["EK_JOB_TOKEN"]
    )
    await server.start()
    await server.wait_for_termination()


def _work(job_dir, index, scenario):
    if "wrong" in scenario and index == 1:
        raise ConfigError("The module has no loss. Received: loss=None")
    while "leaves" in scenario and not (job_dir / "result.json").exists():
        threading.Event().wait(0.02)
    if "crash" in scenario:
        raise RuntimeError("a crash")
    if "death" in scenario and _runs(job_dir, f"worker-{index}") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    while not (job_dir / "over").exists():
        threading.Event().wait(0.02)


def main():
    """Plays one process of a job."""
    role, index, path, scenario = sys.argv[1:]
    job_dir = pathlib.Path(path)
    if role == "launch":
        config = JobConfig.from_options(
            job_dir=path, num_workers=2, num_ps=2, progress="none"
        )
        sys.exit(launcher(scenario).run(config, lambda status: None).exit_code)
    if "stubborn" in scenario:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    name = role if role == "master" else f"{role}-{index}"
    with open(job_dir / f"{name}.pids", "a") as file:
        file.write(f"{os.getpid()}\n")
    lifeline.watch_parent()
    if (
        role == "master"
        and "headless" in scenario
        and _runs(job_dir, role) == 1
    ):
        os.kill(os.getpid(), signal.SIGKILL)
    config = JobConfig.from_json((job_dir / "config.json").read_text())
    if role == "worker":
        exits.run_main(lambda: _work(job_dir, int(index), scenario))
    if role == "ps":
        if "shardless" in scenario and index == "1":
            sys.exit(exits.CRASH)
        if "shot" in scenario and index == "1" and _runs(job_dir, name) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        address = config.ps_addresses[int(index)]
        asyncio.run(_serve(Servicer(), SHARD, address))
    asyncio.run(_serve_master(job_dir, scenario, config.master_address))


async def _serve_master(job_dir, scenario, address):
    await _serve(MasterServicer(job_dir, scenario), MASTER, address)


if __name__ == "__main__":
    main()
