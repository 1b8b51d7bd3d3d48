"""Serves an exported SavedModel over HTTP, with TensorFlow alone.

    python scripts/serve_example.py --model=exports/deepfm/saved_model

    curl localhost:8501/v1/models/model:predict -d \
        '{"instances": [{"user": 17, "movie": 402}]}'

It speaks TensorFlow Serving's REST: `instances`, a list of examples, is
answered with `predictions`; `inputs`, columns by name, with `outputs`. An
example of how little serving takes, not a server for production: it listens
on loopback only. A ragged input may be given as lists of different lengths.
"""

import argparse
import base64
import json
import signal
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from typing import Any

import numpy as np
import tensorflow as tf

_MODEL = "/v1/models/model"
_SPLITS = "_row_splits"
_HOST = "127.0.0.1"
# A connection that says nothing for so long is closed.
_SILENCE_SECONDS = 30.0
# What a message shows of an input.
_EXAMPLES = {"float32": 2.5, "float64": 2.5, "string": "a", "bool": True}
_SHORT = 4


class BadRequest(ValueError):  # noqa: N818 - reads as what happened
    """What a client sent cannot be answered.

    Args:
        message: What is wrong.
        status: The HTTP status.
    """

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class Predictor:
    """Turns JSON into tensors, calls the signature, and back.

    Args:
        path: The SavedModel's folder.
    """

    def __init__(self, path: str) -> None:
        self._loaded = tf.saved_model.load(path)
        self._call = self._loaded.signatures["serving_default"]
        _, self._specs = self._call.structured_input_signature

    @property
    def inputs(self) -> dict[str, dict[str, Any]]:
        """dtype and shape of each input."""
        return {
            name: {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}
            for name, spec in self._specs.items()
        }

    def answer(self, request: Any) -> dict[str, Any]:
        """Answers a request.

        Args:
            request: With `instances` or `inputs`.

        Raises:
            BadRequest: It is none, or does not fit the model.
        """
        if not isinstance(request, Mapping) or (
            ("instances" in request) == ("inputs" in request)
        ):
            raise BadRequest("Send an object with either instances or inputs.")
        if "inputs" in request:
            outputs = self._predict(self._named(request["inputs"]))
            plain = {name: _plain(value) for name, value in outputs.items()}
            return {"outputs": _only_or_all(plain)}
        columns = self._columns(request["instances"])
        outputs = self._predict(columns)
        count = len(request["instances"])
        rows = {name: _plain(value) for name, value in outputs.items()}
        if any(len(values) != count for values in rows.values()):
            raise BadRequest("The outputs have no row for each instance.")
        return {
            "predictions": [
                _only_or_all({name: values[i] for name, values in rows.items()})
                for i in range(count)
            ]
        }

    def _named(self, value: Any) -> dict[str, Any]:
        """Returns values by name; the only input needs none."""
        if isinstance(value, Mapping) and "b64" not in value:
            return dict(value)
        names = [name for name in self._specs if not self._is_splits(name)]
        if len(names) != 1:
            raise BadRequest(f"Name the inputs: {', '.join(sorted(names))}.")
        return {names[0]: value}

    def _columns(self, instances: Any) -> dict[str, Any]:
        if not isinstance(instances, list) or not instances:
            raise BadRequest("instances is a list of one example or more.")
        examples = [self._named(instance) for instance in instances]
        if any(example.keys() != examples[0].keys() for example in examples):
            raise BadRequest("All instances have the same inputs.")
        return {
            name: [example[name] for example in examples]
            for name in examples[0]
        }

    def _is_splits(self, name: str) -> bool:
        return name.removesuffix(_SPLITS) in set(self._specs) - {name}

    def _predict(self, values: Mapping[str, Any]) -> dict[str, np.ndarray]:
        given = dict(values)
        for name in values:
            splits = name + _SPLITS
            if splits in self._specs and splits not in given:
                given[name], given[splits] = _flattened(name, given[name])
        wrong = given.keys() ^ self._specs.keys()
        if wrong:
            raise BadRequest(
                f"The inputs are {', '.join(sorted(self._specs))}. "
                f"Received: {', '.join(sorted(values))}"
            )
        tensors = {
            name: _tensor(name, spec, given[name])
            for name, spec in self._specs.items()
        }
        try:
            outputs = self._call(**tensors)
        except tf.errors.OpError as error:
            raise BadRequest(
                f"The model cannot take this: {error.message}"
            ) from error
        return {name: value.numpy() for name, value in outputs.items()}


def _flattened(name: str, rows: Any) -> tuple[list[Any], list[int]]:
    """Returns the values of lists of any lengths, and where each begins."""
    if not isinstance(rows, list) or not all(
        isinstance(row, list) for row in rows
    ):
        raise BadRequest(f"{name} is a list for each example.")
    flat = [value for row in rows for value in row]
    return flat, np.cumsum([0, *map(len, rows)]).tolist()


def _tensor(name: str, spec: tf.TensorSpec, value: Any) -> tf.Tensor:
    try:
        if spec.dtype == tf.string:
            array = np.array(_decoded(value), object)
        else:
            array = _numbers(value, spec.dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadRequest(
            f"{name} holds {spec.dtype.name}s of shape {spec.shape}: {error}."
        ) from error
    if not spec.shape.is_compatible_with(array.shape):
        raise BadRequest(
            f"{name} has shape {spec.shape}{_advice(name, spec)}. "
            f"Received: {array.shape}"
        )
    return tf.constant(array, spec.dtype)


def _advice(name: str, spec: tf.TensorSpec) -> str:
    """Says what an instance holds for an input of one or two axes."""
    rank = spec.shape.rank
    if rank == 1:
        return f": {name} takes one value per instance, no list"
    if rank != 2:
        return ""
    width = spec.shape[1]
    if width is None:
        return f": {name} takes a list per instance"
    kind = "text" if spec.dtype == tf.string else "number"
    example = json.dumps([_EXAMPLES.get(spec.dtype.name, 2)] * width)
    if width > _SHORT:
        example = f"{example.partition(',')[0]}, ...]"
    return (
        f": {name} takes a list of {width} {kind}{'s' * (width != 1)} per "
        f"instance, such as {example}"
    )


def _numbers(value: Any, dtype: tf.DType) -> np.ndarray:
    array = np.array(value)
    wanted = np.dtype(dtype.as_numpy_dtype)
    if array.size and not np.can_cast(array.dtype.kind, wanted, "same_kind"):
        # To take 1.5 for an id would give some other id's answer.
        raise ValueError(f"these are {array.dtype}")
    return np.array(value, wanted)


def _decoded(value: Any) -> Any:
    """Returns texts; `{"b64": ...}` stands for bytes."""
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    if isinstance(value, Mapping) and set(value) == {"b64"}:
        return base64.b64decode(value["b64"], validate=True)
    if not isinstance(value, str):
        raise TypeError(f"this is no text: {value!r}")
    return value.encode()


def _plain(array: np.ndarray) -> Any:
    if array.dtype == object:
        texts = [value.decode(errors="replace") for value in array.reshape(-1)]
        return np.array(texts, object).reshape(array.shape).tolist()
    return array.tolist()


def _only_or_all(outputs: dict[str, Any]) -> Any:
    return next(iter(outputs.values())) if len(outputs) == 1 else outputs


class Server(ThreadingHTTPServer):
    """An HTTP server on loopback.

    Args:
        port: The port; 0 takes a free one.
        predictor: What answers.
        max_body: Largest body of a request, in bytes.
        max_requests: Most requests at a time; others are told to come back.
    """

    daemon_threads = True

    def __init__(
        self, port: int, predictor: Predictor, max_body: int, max_requests: int
    ) -> None:
        super().__init__((_HOST, port), _Handler)
        self.predictor = predictor
        self.max_body = max_body
        self.slots = threading.Semaphore(max_requests)


def _no_such_path(path: str) -> str:
    return (
        f"No such path; POST to {_MODEL}:predict, or GET {_MODEL} or "
        f"{_MODEL}/metadata. Received: {path}"
    )


class _Handler(BaseHTTPRequestHandler):
    """Answers requests of one connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = _SILENCE_SECONDS

    def do_GET(self) -> None:
        """Tells of the model."""
        if self.path == _MODEL:
            self._send(200, {"model_version_status": [{"state": "AVAILABLE"}]})
        elif self.path == f"{_MODEL}/metadata":
            self._send(200, {"inputs": self.server.predictor.inputs})
        else:
            self._send(404, {"error": _no_such_path(self.path)})

    def do_POST(self) -> None:
        """Predicts."""
        try:
            self._send(200, self._predicted())
        except BadRequest as error:
            # What is left of the body would be taken for a request.
            self.close_connection = True
            self._send(error.status, {"error": str(error)})

    def _predicted(self) -> dict[str, Any]:
        if self.path != f"{_MODEL}:predict":
            raise BadRequest(_no_such_path(self.path), 404)
        body = self._body()
        if not self.server.slots.acquire(blocking=False):
            raise BadRequest("Too many requests at a time; try again.", 503)
        try:
            return self.server.predictor.answer(json.loads(body))
        except (
            UnicodeDecodeError,
            json.JSONDecodeError,
            RecursionError,
        ) as error:
            raise BadRequest(f"This is no JSON: {error}") from error
        finally:
            self.server.slots.release()

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            raise BadRequest("Send a Content-Length.", 411)
        if int(length) > self.server.max_body:
            raise BadRequest(
                f"A body has at most {self.server.max_body} bytes. "
                f"Received: {length}",
                413,
            )
        return self.rfile.read(int(length))

    def _send(self, status: int, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: a line for each request would be the most of it."""


def main() -> None:
    """Serves until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--model", required=True, help="A SavedModel's folder.")
    parser.add_argument("--port", type=int, default=8501, help="0: a free one.")
    parser.add_argument("--max_body_mb", type=int, default=16)
    parser.add_argument("--max_requests", type=int, default=8)
    arguments = parser.parse_args()
    server = Server(
        arguments.port,
        Predictor(arguments.model),
        arguments.max_body_mb << 20,
        arguments.max_requests,
    )

    def stop(number: int, frame: FrameType | None) -> None:
        # Not from the thread that serves: it would wait for itself.
        threading.Thread(target=server.shutdown).start()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    port = server.server_address[1]
    print(f"serving http://{_HOST}:{port}{_MODEL}:predict", flush=True)
    with server:
        server.serve_forever()


if __name__ == "__main__":
    main()
