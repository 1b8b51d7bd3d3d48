"""A job that is sent broken and hostile bytes while it trains."""

import collections
import json
import subprocess
import sys

import grpc
import numpy as np
import pytest

from elastic_keras.wire.proto import master_pb2, ps_pb2, tensor_pb2
from tests.chaos.mutations import mutations
from tests.end_to_end.harness import ZOO, write_clicks
from tests.ps import served

pytestmark = [pytest.mark.chaos, pytest.mark.end_to_end]

MASTER = master_pb2.DESCRIPTOR.services_by_name["Master"]
# No worker's number.
NOBODY = 999_999
REFUSALS = {
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}
# What comes from one who may: number 1 is a worker's, and a batch without
# finite gradients is a batch.
OBEYED = ("worker: '1'", "index: '0'", "nonfinite: 'True'")
EPOCHS = 16
RECORDS = 2000

# Nothing that the master would do for one who holds the token: fields of
# these are changed one by one. `StopJob` and `ScaleJob` are left out: they
# are obeyed.
MASTER_REQUESTS = {
    "Join": master_pb2.WorkerJoinRequest(
        job_id="another", protocol_version=1, index=1, pid=1, host="h"
    ),
    "GetTask": master_pb2.GetTaskRequest(worker=NOBODY, call=1),
    "ReportTask": master_pb2.ReportTaskRequest(
        worker=NOBODY, lease=1, records=64, examples=64, batches=4
    ),
    "ReserveSteps": master_pb2.ReserveStepsRequest(
        worker=NOBODY, done=1, want=1, call=1
    ),
    "Heartbeat": master_pb2.HeartbeatRequest(
        worker=NOBODY, steps=1, examples=1, loss_sum=1.0, seconds=1.0
    ),
    "Leave": master_pb2.LeaveRequest(worker=NOBODY, index=77, pid=1),
    "DescribeJob": tensor_pb2.Empty(),
}
SHARD_REQUESTS = {
    "Join": served.join_request(),
    "InitDense": ps_pb2.InitDenseRequest(),
    "Pull": served.pull_request(mode=ps_pb2.READ),
    "Push": served.push_request(member=NOBODY),
    "SetMembers": ps_pb2.SetMembersRequest(number=0, members=[NOBODY]),
    "GetProgress": ps_pb2.ProgressRequest(epoch=0, task=1),
}


@pytest.fixture
def job(tmp_path):
    """A job that trains, its directory and its token."""
    data = tmp_path / "clicks.csv"
    write_clicks(data, RECORDS)
    job_dir = tmp_path / "job"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "elastic_keras.cli",
            "train",
            f"--model_zoo={ZOO}",
            "--model_def=clicks",
            f"--training_data={data}",
            f"--job_dir={job_dir}",
            "--minibatch_size=16",
            f"--num_epochs={EPOCHS}",
            "--progress=plain",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr:
            if f"/{EPOCHS * RECORDS:,} records" in line:
                break
        yield process, job_dir
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate()


class Attacker:
    """Holds the token, or not, and keeps count of the answers."""

    def __init__(self, address, service, token) -> None:
        self._channel = grpc.insecure_channel(address)
        self._service = service
        self._metadata = (("ek-token", token),)
        self.counts: collections.Counter = collections.Counter()

    def send(self, method, raw, what) -> None:
        call = self._channel.unary_unary(
            f"/elastic_keras.{self._service}/{method}"
        )
        try:
            call(raw, timeout=0.5, metadata=self._metadata)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
        else:
            self.counts["taken"] += 1
            return
        self.counts[code.name] += 1
        wanted = REFUSALS | {grpc.StatusCode.UNAUTHENTICATED}
        assert code in wanted, f"{method} {what}: {code} {details}"

    def attack(self, requests) -> None:
        """Sends random bytes, wrong fields and torn messages."""
        random = np.random.default_rng(0)
        for method, message in requests.items():
            raw = message.SerializeToString()
            for size in (1, 5, 60, 1000):
                self.send(method, random.bytes(size), f"random {size}")
            for end in random.integers(0, len(raw) + 1, 4):
                self.send(method, raw[:end], f"cut at {end}")
            for what, changed in mutations(message):
                if what not in OBEYED:
                    self.send(method, changed.SerializeToString(), what)

    def close(self) -> None:
        self._channel.close()


def test_a_job_trains_to_the_end_under_fire(job):
    process, job_dir = job
    config = json.loads((job_dir / "config.json").read_text())
    token = (job_dir / ".token").read_text()
    targets = [
        (config["master_address"], "Master", MASTER_REQUESTS),
        (config["ps_addresses"][0], "ParameterServer", SHARD_REQUESTS),
    ]
    for address, service, requests in targets:
        stranger = Attacker(address, service, "wrong")
        stranger.attack(requests)
        assert set(stranger.counts) == {"UNAUTHENTICATED"}
        stranger.close()
        insider = Attacker(address, service, token)
        insider.attack(requests)
        print(service, dict(insider.counts))
        assert insider.counts["INVALID_ARGUMENT"] > 0
        insider.close()
    assert process.poll() is None, "the job was over before the attack"
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err[-3000:]
    result = json.loads((job_dir / "result.json").read_text())
    assert result["records_trained"] == EPOCHS * RECORDS
    assert result["steps"] == EPOCHS * RECORDS // 16
    assert sum(result["restarts"].values()) == 0


def test_the_whole_of_a_service_is_tried():
    left_out = {"StopJob", "ScaleJob", "WatchJob", "Exchange"}
    names = {method.name for method in MASTER.methods}
    assert names - left_out == set(MASTER_REQUESTS)
