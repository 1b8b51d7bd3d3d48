"""Metric states of several tasks, added up."""

import base64

import numpy as np
from google.protobuf.message import DecodeError

from elastic_keras.wire import tensors
from elastic_keras.wire.errors import WireError
from elastic_keras.wire.proto import master_pb2


class MetricSum:
    """The sum of metric states, as if one worker had seen all examples.

    Keras metrics keep sums and counts. Floats are added in float64, so that
    the order in which tasks end does not show in the float32 result;
    integers are added as int64.
    """

    def __init__(self) -> None:
        self._sums: dict[str, list[np.ndarray]] = {}

    @property
    def empty(self) -> bool:
        """Whether nothing was added."""
        return not self._sums

    def add(self, states: master_pb2.MetricStates) -> None:
        """Adds the states of one task.

        Args:
            states: Name of each metric -> its variables; every task sends
                the same names and shapes.

        Raises:
            WireError: A state that does not fit the others; the sum is as
                it was.
        """
        added = {
            name: self._added(name, list(states.metrics[name].tensors))
            for name in sorted(states.metrics)
        }
        if self._sums and added and added.keys() != self._sums.keys():
            raise WireError(
                f"states: metrics {sorted(self._sums)} came before. "
                f"Received: metrics={sorted(added)}"
            )
        self._sums.update(added)

    def to_proto(self) -> master_pb2.MetricStates:
        """Returns the sums: float64 or int64 tensors."""
        states = master_pb2.MetricStates()
        for name, arrays in self._sums.items():
            states.metrics[name].tensors.extend(
                tensors.encode(array) for array in arrays
            )
        return states

    def to_state(self) -> str:
        """Returns the sums as text."""
        data = self.to_proto().SerializeToString(deterministic=True)
        return base64.b64encode(data).decode()

    @classmethod
    def from_state(cls, text: str) -> "MetricSum":
        """Reads what `to_state` returned.

        Raises:
            ValueError: It is none.
        """
        made = cls()
        try:
            data = base64.b64decode(text)
            made.add(master_pb2.MetricStates.FromString(data))
        except (WireError, DecodeError) as error:
            raise ValueError(f"Not metric states: {error}") from error
        return made

    def _added(self, name: str, received: list) -> list[np.ndarray]:
        arrays = [
            _widened(tensors.decode(tensor, name=f"states[{name!r}][{i}]"))
            for i, tensor in enumerate(received)
        ]
        sums = self._sums.get(name)
        if sums is None:
            return arrays
        if [a.shape for a in arrays] != [s.shape for s in sums]:
            raise WireError(
                f"states[{name!r}]: shapes {[s.shape for s in sums]} came "
                f"before. Received: shapes={[a.shape for a in arrays]}"
            )
        return [a + s for a, s in zip(arrays, sums, strict=True)]


def _widened(array: np.ndarray) -> np.ndarray:
    kind = np.float64 if array.dtype.kind == "f" else np.int64
    return array.astype(kind)
