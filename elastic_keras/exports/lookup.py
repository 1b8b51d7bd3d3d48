"""Rows in a graph of TensorFlow alone: ids are found by binary search."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from elastic_keras.exports.initial_values import initial_values
from elastic_keras.exports.sorted_ids import place_type
from elastic_keras.layers.context import LookupContext
from elastic_keras.signature import ModelSignature


class TableVariables(tf.Module):
    """A table as variables of any length; they start empty.

    Args:
        dim: Width of a row.
        rows: Rows that it is going to have.
    """

    def __init__(self, dim: int, rows: int) -> None:
        super().__init__()
        self.ids = _variable([None], np.int64)
        self.places = _variable([None], place_type(rows))
        self.rows = _variable([None, dim], np.float32)

    def find(self, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns whether ids have a row, and where it would be.

        Args:
            ids: int64, `(n,)`.

        Returns:
            bool and int64, both `(n,)`; the second is a position in
            `places`, and means nothing where the first is false.
        """
        # Two searches: without rows there is nothing to compare an id with.
        wanted, known = ids[tf.newaxis], self.ids[tf.newaxis]
        before = tf.raw_ops.LowerBound(
            sorted_inputs=known, values=wanted, out_type=tf.int64
        )
        after = tf.raw_ops.UpperBound(
            sorted_inputs=known, values=wanted, out_type=tf.int64
        )
        return (after > before)[0], before[0]


class TableLookup(LookupContext):
    """Answers lookups from variables, unknown ids with initial values.

    Args:
        layers: The PS layers, in signature order.
        tables: Their variables.
        signature: The model.
    """

    def __init__(
        self,
        layers: Sequence[Any],
        tables: Sequence[TableVariables],
        signature: ModelSignature,
    ) -> None:
        self._position = {id(layer): i for i, layer in enumerate(layers)}
        self._layers = layers
        self._tables = tables
        self._signature = signature
        self._asked: list[list[tf.Tensor]] = [[] for _ in layers]

    def lookup(self, layer: Any, ids: tf.Tensor) -> tf.Tensor:
        """See `LookupContext.lookup`."""
        number = self._position[id(layer)]
        spec = self._signature.tables[number]
        if hasattr(layer, "checked_ids"):
            ids = layer.checked_ids(ids)
        flat = tf.reshape(ids, [-1])
        self._asked[number].append(flat)
        rows = tf.reshape(
            self._rows(number, flat), tf.concat([tf.shape(ids), [spec.dim]], 0)
        )
        rows.set_shape(ids.shape.concatenate([spec.dim]))
        return rows

    def regularization(self) -> tf.Tensor:
        """Returns what regularizers make of the rows that were looked up.

        As in a job's step: of each row once.
        """
        total = tf.zeros([], tf.float32)
        for number, layer in enumerate(self._layers):
            asked = self._asked[number]
            if layer.embeddings_regularizer is not None and asked:
                ids = tf.unique(tf.concat(asked, 0)).y
                total += layer.embeddings_regularizer(self._rows(number, ids))
        return total

    def _rows(self, number: int, flat: tf.Tensor) -> tf.Tensor:
        table, spec = self._tables[number], self._signature.tables[number]
        has_row, position = table.find(flat)
        known = tf.where(has_row)[:, 0]
        unknown = tf.where(~has_row)[:, 0]
        places = tf.gather(table.places, tf.gather(position, known))
        first = initial_values(
            spec.initializer,
            self._signature.seed,
            number,
            tf.gather(flat, unknown),
            spec.dim,
        )
        return tf.dynamic_stitch(
            [tf.cast(known, tf.int32), tf.cast(unknown, tf.int32)],
            [tf.gather(table.rows, places), first],
        )


def _variable(shape: list[int | None], dtype: type) -> tf.Variable:
    empty: np.ndarray = np.zeros([length or 0 for length in shape], dtype)
    return tf.Variable(empty, shape=shape, trainable=False)
