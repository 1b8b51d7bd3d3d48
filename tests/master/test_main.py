import json
import pathlib
import subprocess
import sys

import pytest

from elastic_keras.config import JobConfig
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import master_pb2, tensor_pb2

_SERVICE = master_pb2.DESCRIPTOR.services_by_name["Master"]


def _start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "elastic_keras.master.main", *arguments],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_master_needs_no_tensorflow():
    code = (
        "import sys, elastic_keras.master.main\n"
        "import elastic_keras.data.file_reader, elastic_keras.zoo.location\n"
        "print({'tensorflow', 'keras', 'numba'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"


@pytest.mark.parametrize(
    "arguments", [[], ["--job_dir=/nowhere"], ["--what", "--job_dir=/nowhere"]]
)
def test_wrong_arguments(arguments):
    process = _start(*arguments)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err.splitlines()[-1].startswith("error: ")


def test_a_job_without_data_ends_with_a_message(tmp_path):
    (tmp_path / "mine.py").write_text("def custom_model(): ...\n")
    config = JobConfig.from_options(
        training_data=str(tmp_path / "none-*.csv"),
        model_zoo=str(tmp_path),
        model_def="mine",
    )
    raw = json.loads(config.to_json())
    raw["job_id"] = "job"
    raw["master_address"] = f"unix:{tmp_path}/master.sock"
    raw["ps_addresses"] = [f"unix:{tmp_path}/ps-0.sock"]
    (tmp_path / "config.json").write_text(json.dumps(raw))
    process = _start(f"--job_dir={tmp_path}")
    client = rpc.Client(raw["master_address"], _SERVICE)
    try:
        *_, last = client.stream("WatchJob", tensor_pb2.Empty())
    finally:
        client.close()
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert last.phase == "failed"
    assert last.exit_code == 2
    assert "none-*.csv" in last.error
    assert f"error: {last.error}" in err
    assert process.returncode == 0
    result = json.loads(pathlib.Path(tmp_path / "result.json").read_text())
    assert result["status"] == "failed"
    assert result["error"] == last.error
