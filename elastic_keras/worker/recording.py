"""Finds the ids of every PS embedding by tracing the model once."""

from typing import Any

import keras
import tensorflow as tf

from elastic_keras.layers.context import (
    LookupContext,
    lookup_scope,
    zero_rows,
)


class Recorder(LookupContext):
    """Writes down each lookup and answers it with a placeholder.

    Args:
        graph: The graph of the trace; lookups in a graph inside it (a loop
            or a condition) cannot be found before the step.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self.calls: list[tuple[Any, tf.Tensor]] = []
        self.placeholders: dict[int, Any] = {}
        self.inside: list[Any] = []

    def lookup(self, layer: Any, ids: tf.Tensor) -> tf.Tensor:
        if tf.compat.v1.get_default_graph() is not self._graph:
            self.inside.append(layer)
            return zero_rows(ids, layer.output_dim)
        if hasattr(layer, "checked_ids"):
            ids = layer.checked_ids(ids)
        self.calls.append((layer, ids))
        rows = tf.compat.v1.placeholder(
            tf.float32, ids.shape.concatenate([layer.output_dim])
        )
        self.placeholders[id(rows.op)] = layer
        return rows


class Recording:
    """What a traced call of a model says about its lookups and state.

    Args:
        model: A built Keras model.
        features_spec: Nested specs of the features, their batch open.
        training: The mode to call the model in.
    """

    def __init__(self, model: Any, features_spec: Any, training: bool) -> None:
        flat_spec = tf.nest.flatten(features_spec, expand_composites=True)
        self._recorder: Recorder | None = None
        self._changed: list[Any] = []

        def trace(*flat: tf.Tensor) -> list[tf.Tensor]:
            features = tf.nest.pack_sequence_as(
                features_spec, flat, expand_composites=True
            )
            graph = tf.compat.v1.get_default_graph()
            self._recorder = recorder = Recorder(graph)
            # The scope keeps the model's state as it is, and knows which
            # variables the call would have changed.
            with keras.StatelessScope() as scope, lookup_scope(recorder):
                model(features, training=training)
            self._changed = [
                variable
                for variable in model.non_trainable_variables
                if scope.get_current_value(variable) is not None
            ]
            return [ids for _, ids in recorder.calls]

        self._function = tf.compat.v1.wrap_function(trace, flat_spec)
        self._num_inputs = len(flat_spec)

    @property
    def calls(self) -> list[tuple[Any, tf.Tensor]]:
        """(layer, ids) of each lookup, in the order of the calls."""
        assert self._recorder is not None
        return self._recorder.calls

    @property
    def changed(self) -> list[Any]:
        """Non-trainable variables that the call changes."""
        return self._changed

    def inside(self) -> list[Any]:
        """Layers called inside a loop, a condition or a function."""
        assert self._recorder is not None
        return self._recorder.inside

    def dependent(self) -> list[Any]:
        """Layers whose ids depend on another lookup's rows."""
        assert self._recorder is not None
        placeholders = self._recorder.placeholders
        return [
            layer for layer, ids in self.calls if _reaches(ids.op, placeholders)
        ]

    def pruned(self) -> Any:
        """Returns a function from flat features to the ids of each call."""
        inputs = self._function.inputs[: self._num_inputs]
        return self._function.prune(inputs, [ids for _, ids in self.calls])


def _reaches(start: Any, goals: dict[int, Any]) -> bool:
    """Whether an op depends on one of the ops with the ids `goals`."""
    seen = set()
    waiting = [start]
    while waiting:
        op = waiting.pop()
        if id(op) in goals:
            return True
        if id(op) in seen:
            continue
        seen.add(id(op))
        waiting.extend(tensor.op for tensor in op.inputs)
        waiting.extend(op.control_inputs)
    return False
