"""TensorBoard event files, written without TensorFlow."""

import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence

import numpy as np
from tensorboard.compat.proto import (
    event_pb2,
    summary_pb2,
    tensor_pb2,
    tensor_shape_pb2,
    types_pb2,
)
from tensorboard.plugins.histogram import metadata as histogram_metadata
from tensorboard.plugins.scalar import metadata as scalar_metadata
from tensorboard.plugins.text import metadata as text_metadata
from tensorboard.summary.writer.record_writer import RecordWriter

_FILE_VERSION = "brain.Event:2"


class SummaryWriter:
    """Appends points to one event file of a TensorBoard run.

    Safe to call from several threads. TensorBoard shows a point after the
    next `flush`.
    """

    def __init__(self, logdir: str) -> None:
        """Makes the run's folder and its event file.

        Args:
            logdir: Folder of the run; made if it is not there.
        """
        os.makedirs(logdir, exist_ok=True)
        name = (
            f"events.out.tfevents.{time.time_ns() // 1_000_000_000:010d}"
            f".{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}"
        )
        self.path = os.path.join(logdir, name)
        self._lock = threading.Lock()
        self._records = RecordWriter(open(self.path, "xb"))  # noqa: SIM115
        self._write(event_pb2.Event(file_version=_FILE_VERSION))
        self.flush()

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Adds one point to a curve.

        Args:
            tag: Name of the curve, e.g. `evaluation/auc`.
            value: Its value.
            step: Its place on the x axis.
        """
        self.scalars({tag: value}, step)

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Adds one point to each of several curves, as one record.

        Args:
            values: Value by tag.
            step: Their place on the x axis.
        """
        if not values:
            return
        summary = summary_pb2.Summary()
        for tag, value in values.items():
            summary.value.add(
                tag=tag,
                metadata=scalar_metadata.create_summary_metadata("", ""),
                tensor=_tensor(np.float32(value)),
            )
        self.add(summary, step)

    def histogram(self, tag: str, values: np.ndarray, step: int) -> None:
        """Adds a histogram of raw values.

        Args:
            tag: Its name.
            values: Any shape; values that are not finite are left out.
            step: Its place in time.
        """
        flat = np.asarray(values, np.float64).reshape(-1)
        flat = flat[np.isfinite(flat)]
        if not flat.size:
            self.histogram_counts(tag, [], step)
            return
        counts, edges = np.histogram(flat, bins=30)
        self.histogram_counts(tag, counts, step, edges=edges)

    def histogram_counts(
        self,
        tag: str,
        counts: Sequence[float] | np.ndarray,
        step: int,
        *,
        edges: Sequence[float] | np.ndarray | None = None,
    ) -> None:
        """Adds a histogram that was counted elsewhere.

        Args:
            tag: Its name.
            counts: Number of values in each bucket, shape `(n,)`.
            step: Its place in time.
            edges: Borders of the buckets, shape `(n + 1,)`; without them
                bucket `i` holds the value `i`.

        Raises:
            ValueError: The number of edges does not fit the counts.
        """
        heights = np.asarray(counts, np.float64).reshape(-1)
        if edges is None:
            borders = np.arange(heights.size + 1, dtype=np.float64) - 0.5
        else:
            borders = np.asarray(edges, np.float64).reshape(-1)
        if borders.size != heights.size + 1:
            raise ValueError(
                "A histogram has one edge more than buckets. "
                f"Received: edges={borders.size}, counts={heights.size}"
            )
        buckets = np.stack([borders[:-1], borders[1:], heights], axis=1)
        summary = summary_pb2.Summary()
        summary.value.add(
            tag=tag,
            metadata=histogram_metadata.create_summary_metadata("", ""),
            tensor=_tensor(buckets),
        )
        self.add(summary, step)

    def text(self, tag: str, text: str, step: int) -> None:
        """Adds a text; TensorBoard reads it as Markdown.

        Args:
            tag: Its name.
            text: The text.
            step: Its place in time.
        """
        summary = summary_pb2.Summary()
        summary.value.add(
            tag=tag,
            metadata=text_metadata.create_summary_metadata("", ""),
            tensor=tensor_pb2.TensorProto(
                dtype=types_pb2.DT_STRING,
                tensor_shape=_shape((1,)),
                string_val=[text.encode()],
            ),
        )
        self.add(summary, step)

    def add(self, summary: summary_pb2.Summary, step: int) -> None:
        """Adds a summary that was made elsewhere.

        Args:
            summary: The summary.
            step: Its place in time.
        """
        self._write(event_pb2.Event(step=step, summary=summary))

    def flush(self) -> None:
        """Brings everything so far to the file."""
        with self._lock:
            if not self._records.closed:
                self._records.flush()

    def close(self) -> None:
        """Flushes and closes the file; later points are dropped."""
        with self._lock:
            if not self._records.closed:
                self._records.close()

    def _write(self, event: event_pb2.Event) -> None:
        event.wall_time = time.time()
        with self._lock:
            if not self._records.closed:
                self._records.write(event.SerializeToString())


def _tensor(array: np.ndarray | np.generic) -> tensor_pb2.TensorProto:
    """Returns a float32 or float64 array as TensorBoard's tensor."""
    kinds = {"float32": types_pb2.DT_FLOAT, "float64": types_pb2.DT_DOUBLE}
    return tensor_pb2.TensorProto(
        dtype=kinds[array.dtype.name],
        tensor_shape=_shape(array.shape),
        tensor_content=array.tobytes(),
    )


def _shape(shape: tuple[int, ...]) -> tensor_shape_pb2.TensorShapeProto:
    return tensor_shape_pb2.TensorShapeProto(
        dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=size) for size in shape]
    )
