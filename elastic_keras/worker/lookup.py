"""Ids are found before the step runs."""

from typing import Any

import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.layers.context import LookupContext
from elastic_keras.worker.batches import open_batch, unpack
from elastic_keras.worker.misfit import misfit_explained
from elastic_keras.worker.model import PreparedModel
from elastic_keras.worker.recording import Recording


class Lookup:
    """Adds the ids of all tables to the batches of a dataset.

    The model is traced once; the part of the graph that computes ids runs in
    tf.data's threads.

    Args:
        prepared: The model.
        element_spec: Spec of the dataset's batches.
        training: The mode that the step will call the model in.

    Raises:
        ConfigError: Ids depend on rows, or are made in a loop or condition.
    """

    def __init__(
        self, prepared: PreparedModel, element_spec: Any, training: bool = True
    ) -> None:
        self._num_tables = len(prepared.tables)
        self._spec = open_batch(element_spec)
        self._pruned: Any = None
        self._calls: list[int] = []
        if not prepared.tables:
            return
        features_spec = unpack(self._spec).features
        with misfit_explained(features_spec):
            recording = Recording(prepared.model, features_spec, training)
        check_recording(recording)
        position = {id(layer): i for i, layer in enumerate(prepared.tables)}
        self._calls = [position[id(layer)] for layer, _ in recording.calls]
        if self._calls:
            self._pruned = recording.pruned()

    def map(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Returns the dataset of (batch, ids), in the same order.

        For `ids` see the method of this name.

        Raises:
            ConfigError: The batches are not those this lookup was made for.
        """
        check_spec(self._spec, dataset.element_spec)
        is_tuple = isinstance(dataset.element_spec, tuple)

        def with_ids(*parts: Any) -> tuple[Any, tuple[tf.Tensor, ...]]:
            batch = parts if is_tuple else parts[0]
            return batch, self.ids(batch)

        return dataset.map(
            with_ids, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True
        )

    def ids(self, batch: Any) -> tuple[tf.Tensor, ...]:
        """Returns the ids of one batch; also works eagerly.

        Returns:
            Per table the ids of every lookup, call after call, row-major,
            int64, shape `(n,)`.
        """
        found: list[list[tf.Tensor]] = [[] for _ in range(self._num_tables)]
        if self._pruned is not None:
            flat = tf.nest.flatten(
                unpack(batch).features, expand_composites=True
            )
            for table, ids in zip(
                self._calls, self._pruned(*flat), strict=True
            ):
                found[table].append(tf.reshape(ids, [-1]))
        return tuple(map(_joined, found))


def _joined(parts: list[tf.Tensor]) -> tf.Tensor:
    if not parts:
        return tf.zeros([0], tf.int64)
    return parts[0] if len(parts) == 1 else tf.concat(parts, 0)


class GatherRows(LookupContext):
    """Answers lookups with rows that were pulled before the step.

    Args:
        tables: The PS layers, in signature order.
        rows: Per table the rows of its unique ids, shape `(u, dim)`.
        inverse: Per table the row of each lookup, in the order of
            `Lookup.ids`, int32, shape `(n,)`.
    """

    def __init__(
        self, tables: list[Any], rows: list[tf.Tensor], inverse: list[tf.Tensor]
    ) -> None:
        self._position = {id(layer): i for i, layer in enumerate(tables)}
        self._rows = rows
        self._inverse = inverse
        self._taken: list[Any] = [0] * len(tables)

    def lookup(self, layer: Any, ids: tf.Tensor) -> tf.Tensor:
        table = self._position[id(layer)]
        start = self._taken[table]
        stop = start + tf.size(ids)
        self._taken[table] = stop
        rows = tf.gather(self._rows[table], self._inverse[table][start:stop])
        dim = [layer.output_dim]
        rows = tf.reshape(rows, tf.concat([tf.shape(ids), dim], 0))
        rows.set_shape(ids.shape.concatenate(dim))
        return rows


def check_recording(recording: Recording) -> None:
    """Refuses lookups whose ids are not known before the step.

    Raises:
        ConfigError: Names the layer and what is wrong.
    """
    for layer in recording.inside():
        raise ConfigError(
            "Ids must be known before the step: call the embedding outside "
            "of loops, conditions and tf.functions. "
            f"Received: layer {layer.name!r}"
        )
    for layer in recording.dependent():
        raise ConfigError(
            "Ids must be known before the step, but they depend on an "
            f"embedding's output. Received: layer {layer.name!r}"
        )


def check_spec(expected: Any, spec: Any) -> None:
    """Refuses batches of another structure, dtype or shape.

    Raises:
        ConfigError: Shows both specs.
    """
    if not fits_spec(expected, spec):
        raise ConfigError(
            f"dataset_fn gave batches of {expected} before. "
            f"Received: batches of {spec}"
        )


def fits_spec(expected: Any, spec: Any) -> bool:
    """Returns whether batches have a structure, dtype and shape.

    Args:
        expected: The spec to have.
        spec: The batches' spec, whose size is free.
    """
    try:
        tf.nest.assert_same_structure(expected, spec)
        return all(
            a.is_compatible_with(b)
            for a, b in zip(
                tf.nest.flatten(expected),
                tf.nest.flatten(open_batch(spec)),
                strict=True,
            )
        )
    except (TypeError, ValueError):
        return False
