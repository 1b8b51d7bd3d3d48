"""The example server, over HTTP, where elastic_keras is not installed."""

import contextlib
import http.client
import json
import pathlib
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.exports.saved_model import write_saved_model
from tests.exports import cases
from tests.exports.stand_ins import HIDE_ELASTIC_KERAS, restored

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "serve_example.py"
_RUN = (
    HIDE_ELASTIC_KERAS
    + """
import runpy
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
assert "elastic_keras" not in sys.modules
"""
)


@contextlib.contextmanager
def serving(model):
    """Runs the server; gives the address of its model."""
    command = [str(SCRIPT), f"--model={model}", "--port=0", "--max_body_mb=1"]
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", _RUN, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("serving http://127.0.0.1:"), (
            process.stderr.read()[-2000:]
        )
        yield line.split()[1].removesuffix(":predict")
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors[-2000:]


def post(url, body):
    """Returns status and answer of a POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, data), timeout=60
        ) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture(scope="module")
def ragged(tmp_path_factory):
    """A trained model with ragged ids, and the address that serves it."""
    folder = tmp_path_factory.mktemp("ragged")
    trained = cases.CASES["ragged"].train(folder)
    write_saved_model(restored(trained), folder)
    with serving(folder / "saved_model") as url:
        yield trained, url


def test_predicts(ragged):
    trained, url = ragged
    tags = trained.features["tags"].to_list()
    movies = trained.features["movie"].numpy().tolist()
    instances = [
        {"tags": each, "movie": movie}
        for each, movie in zip(tags, movies, strict=True)
    ]
    status, answer = post(f"{url}:predict", {"instances": instances})
    assert status == 200
    np.testing.assert_allclose(
        answer["predictions"], trained.predictions, atol=1e-6
    )
    columns = {"tags": tags, "movie": movies}
    status, answer = post(f"{url}:predict", {"inputs": columns})
    assert status == 200
    np.testing.assert_allclose(
        answer["outputs"], trained.predictions, atol=1e-6
    )
    named = {
        name: value.tolist()
        for name, value in cases.named(trained.features).items()
    }
    assert post(f"{url}:predict", {"inputs": named}) == (200, answer)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "no JSON"),
        (b"\xff", 400, "no JSON"),
        ([], 400, "instances or inputs"),
        ({"instances": [], "inputs": []}, 400, "instances or inputs"),
        ({"instances": []}, 400, "one example or more"),
        ({"instances": [1]}, 400, "Name the inputs: movie, tags."),
        ({"instances": [{"movie": 1}]}, 400, "The inputs are movie, tags"),
        ({"instances": [{"movie": 1, "tags": 3}]}, 400, "tags is a list"),
        (
            {"instances": [{"movie": 1.5, "tags": [3]}]},
            400,
            "movie holds int64",
        ),
        (
            {"instances": [{"movie": "a", "tags": [3]}]},
            400,
            "movie holds int64",
        ),
        (
            {"instances": [{"movie": [1], "tags": [3]}]},
            400,
            "movie has shape (None,): movie takes one value per instance, no",
        ),
        ({"inputs": {"movie": [2**70], "tags": [[3]]}}, 400, "movie holds"),
        (
            {"inputs": {"movie": [1], "tags": [3], "tags_row_splits": [0, 9]}},
            400,
            "The model cannot take this",
        ),
        (b" " * (1 << 20) + b"1", 413, "at most 1048576 bytes"),
    ],
)
def test_refuses(ragged, body, status, said):
    _, url = ragged
    code, answer = post(f"{url}:predict", body)
    assert code == status
    assert said in answer["error"]


def test_a_number_for_a_list_of_numbers(tmp_path):
    class Model(tf.Module):
        @tf.function(
            input_signature=[
                tf.TensorSpec([None, 1], name="chol"),
                tf.TensorSpec([None, 2], tf.int64, name="ids"),
            ]
        )
        def call(self, chol, ids):
            return {"y": chol + tf.cast(ids[:, :1], tf.float32)}

    model = Model()
    tf.saved_model.save(
        model, str(tmp_path), signatures={"serving_default": model.call}
    )
    with serving(tmp_path) as url:
        instance = {"chol": 2.33, "ids": [1, 2]}
        _, answer = post(f"{url}:predict", {"instances": [instance]})
        assert answer["error"] == (
            "chol has shape (None, 1): chol takes a list of 1 number per "
            "instance, such as [2.5]. Received: (1,)"
        )
        instance = {"chol": [2.5], "ids": 1}
        _, answer = post(f"{url}:predict", {"instances": [instance]})
        assert (
            "list of 2 numbers per instance, such as [2, 2]. Rec"
            in (answer["error"])
        )
        instance = {"chol": [2.5], "ids": [1, 2]}
        assert post(f"{url}:predict", {"instances": [instance]})[1] == {
            "predictions": [[3.5]]
        }


def test_other_paths(ragged):
    _, url = ragged
    status, answer = post(f"{url}:classify", {})
    assert status == 404
    assert "POST to /v1/models/model:predict, or GET" in answer["error"]
    with urllib.request.urlopen(f"{url}/metadata", timeout=60) as reply:
        inputs = json.load(reply)["inputs"]
    assert inputs["movie"] == {"dtype": "int64", "shape": [None]}
    assert inputs.keys() == {"movie", "tags", "tags_row_splits"}
    with urllib.request.urlopen(url, timeout=60) as reply:
        state = json.load(reply)["model_version_status"][0]["state"]
    assert state == "AVAILABLE"


def test_a_connection_serves_several_requests(ragged):
    _, url = ragged
    host = url.split("/")[2]
    connection = http.client.HTTPConnection(host, timeout=60)
    body = json.dumps({"instances": [{"movie": 1, "tags": [2]}]})
    for _ in range(3):
        connection.request("POST", "/v1/models/model:predict", body)
        reply = connection.getresponse()
        assert reply.status == 200
        reply.read()
    connection.close()
