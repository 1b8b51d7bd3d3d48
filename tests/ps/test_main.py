"""A shard as a process."""

import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import pytest

from elastic_keras.config import JobConfig
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import ps_pb2, tensor_pb2

SERVICE = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]
ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture
def job_dir():
    with tempfile.TemporaryDirectory() as folder:
        config = dataclasses.replace(
            JobConfig(),
            job_id="j",
            ps_addresses=(f"unix:{folder}/0.sock", f"unix:{folder}/1.sock"),
        )
        pathlib.Path(folder, "config.json").write_text(config.to_json())
        yield folder


def start(*arguments: str, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "elastic_keras.ps.main", *arguments],
        cwd=ROOT,
        env={**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def status(address: str, token: str = "") -> ps_pb2.ShardStatus:
    client = rpc.Client(address, SERVICE, token=token)
    try:
        return client.call("GetStatus", tensor_pb2.Empty(), timeout=60)
    finally:
        client.close()


def test_it_serves_until_it_is_told_to_stop(job_dir):
    process = start(f"--job_dir={job_dir}", "--index=1", EK_JOB_TOKEN="t")
    address = f"unix:{job_dir}/1.sock"
    assert status(address, "t").shard == 1
    with pytest.raises(rpc.RpcError, match="UNAUTHENTICATED"):
        status(address, "wrong")
    process.send_signal(signal.SIGTERM)
    out, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert out == ""
    ready, stopped = log.strip().splitlines()
    assert f"shard 1 ready at {address}" in ready
    assert "shard 1 stopped at version 0" in stopped


def test_it_ends_with_its_launcher(job_dir):
    process = start(f"--job_dir={job_dir}", "--index=0", EK_LIFELINE="1")
    status(f"unix:{job_dir}/0.sock")
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--job_dir={}", "--index=2"], "has 2 shards. Received: index=2"),
        (["--job_dir={}", "--index=x"], "--index: invalid int value: 'x'"),
        (["--job_dir={}"], "required: --index"),
        (["--job_dir={}/none", "--index=0"], "Received: job_dir='{}/none'"),
        (["--job_dir={}", "--index=0", "--speed"], "arguments: --speed"),
    ],
)
def test_wrong_use_is_one_line(job_dir, arguments, message):
    process = start(*(a.format(job_dir) for a in arguments))
    _, log = process.communicate(timeout=60)
    assert process.returncode == 2
    assert log.startswith("error: ")
    assert len(log.splitlines()) == 1
    assert message.format(job_dir) in log


def test_a_broken_config_is_one_line(job_dir):
    pathlib.Path(job_dir, "config.json").write_text("{")
    process = start(f"--job_dir={job_dir}", "--index=0")
    _, log = process.communicate(timeout=60)
    assert process.returncode == 2
    assert len(log.splitlines()) == 1
    assert "Not a job's config.json" in log


def test_a_taken_address_is_one_line(job_dir):
    first = start(f"--job_dir={job_dir}", "--index=0")
    status(f"unix:{job_dir}/0.sock")
    second = start(f"--job_dir={job_dir}", "--index=0")
    _, log = second.communicate(timeout=60)
    assert second.returncode == 2
    assert "another process" in log.splitlines()[-1]
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)


def test_neither_tensorflow_nor_keras_is_imported():
    code = (
        "import sys, elastic_keras.ps.main, elastic_keras.ps.warm_up\n"
        "heavy = {'tensorflow', 'keras', 'tensorboard', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
