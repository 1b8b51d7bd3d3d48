"""A table as built-in Keras layers only."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from elastic_keras.exports.initial_values import initial_values
from elastic_keras.layers import Embedding
from elastic_keras.ps.initializers import initial_rows
from elastic_keras.signature import ModelSignature

# Rows in front of a table's own.
_OF_ZERO, _UNKNOWN, _FIRST = 0, 1, 2
# No row is filled with it; see `KerasTable._masked`.
_PADDING = -1e30


class KerasTable:
    """Stands in for an `Embedding` layer of ours in a functional model.

    Sorted ids lie in an integer `keras.layers.Embedding`, rows in another
    one, both frozen; what is between is Keras's operations, so that the
    model loads where this package is not installed.

    Args:
        layer: The layer.
        ids: int64, ascending, `(n,)`.
        rows: float32, `(n, dim)`.
        signature: The model.
        number: Position of the table in it.
        taken: Names of the model's layers; two are added.
    """

    def __init__(
        self,
        layer: Embedding,
        ids: np.ndarray,
        rows: np.ndarray,
        signature: ModelSignature,
        number: int,
        taken: set[str],
    ) -> None:
        self._layer = layer
        self._count = len(ids)
        self._signature = signature
        self._number = number
        self._spec = signature.tables[number]
        self._masks = layer.mask_zero and layer.combiner is None
        self._ids = _frozen(
            _new_name(f"{layer.name}_ids", taken), ids[:, np.newaxis], "int64"
        )
        first = self._first_rows(ids, rows)
        self._rows = _frozen(
            _new_name(f"{layer.name}_rows", taken),
            np.concatenate([first, rows]),
            "float32",
            mask_zero=self._masks,
        )

    def __call__(self, ids: Any, weights: Any = None, **kwargs: Any) -> Any:
        """Returns what the layer would, symbolically."""
        ops = keras.ops
        ids = ops.cast(ids, "int64")
        rows = self._look_up(ids)
        if self._layer.combiner is not None:
            rows = self._combined(rows, ids, weights)
        if rows.dtype != self._layer.compute_dtype:
            rows = ops.cast(rows, self._layer.compute_dtype)
        return rows

    def _first_rows(self, ids: np.ndarray, rows: np.ndarray) -> np.ndarray:
        first = np.zeros((_FIRST, self._spec.dim), np.float32)
        place = int(np.searchsorted(ids, 0))
        if place < len(ids) and ids[place] == 0:
            first[_OF_ZERO] = rows[place]
        else:
            first[_OF_ZERO] = initial_rows(
                self._spec.initializer,
                self._signature.seed,
                self._number,
                np.zeros(1, np.int64),
                self._spec.dim,
            )[0]
        return first

    def _look_up(self, ids: Any) -> Any:
        ops = keras.ops
        found, place = self._find(ids)
        place = ops.where(found, place + _FIRST, _UNKNOWN)
        if self._masks:
            place = ops.where(ops.equal(ids, 0), _OF_ZERO, place)
            found = ops.logical_or(found, ops.equal(ids, 0))
        first = initial_values(
            self._spec.initializer,
            self._signature.seed,
            self._number,
            ids,
            self._spec.dim,
        )
        missing = ops.cast(ops.logical_not(found), "float32")
        first = first * ops.expand_dims(missing, -1)
        rows = self._rows(place)
        if self._masks and not getattr(ids, "ragged", False):
            return self._masked(rows, first, ids)
        # Of these two, one is zero.
        return rows + first

    def _masked(self, rows: Any, first: Any, ids: Any) -> Any:
        """Adds them so that the sum has the mask `ids != 0`.

        Operations drop masks and layers hand them on, `Add` if both of its
        inputs have one: `rows` has it as an Embedding's output; `Masking`
        gives it to `first`, whose vectors of id 0 are filled for that.
        """
        ops = keras.ops
        is_zero = ops.expand_dims(ops.equal(ids, 0), -1)
        first = keras.layers.Masking(_PADDING, dtype="float32")(
            ops.where(is_zero, _PADDING, first)
        )
        return keras.layers.Add(dtype=self._layer.dtype_policy)([rows, first])

    def _find(self, ids: Any) -> tuple[Any, Any]:
        """Finds ids by binary search, one comparison a step.

        Returns:
            Whether each id is there, and where: 0 if nowhere.
        """
        ops = keras.ops
        none = ids * 0
        if not self._count:
            return ops.not_equal(none, 0), none
        # Number of known ids that are not above.
        below = none
        step = 1 << (self._count.bit_length() - 1)
        while step:
            ahead = ops.minimum(below + step, self._count)
            fits = ops.logical_and(
                below + step <= self._count, self._id_at(ahead - 1) <= ids
            )
            below = ops.where(fits, ahead, below)
            step >>= 1
        place = ops.maximum(below - 1, 0)
        return ops.equal(self._id_at(place), ids), place

    def _id_at(self, place: Any) -> Any:
        # Its only column; a sum works for ragged places, too.
        return keras.ops.sum(self._ids(place), axis=-1)

    def _combined(self, rows: Any, ids: Any, weights: Any) -> Any:
        ops = keras.ops
        factors = ops.cast(ids * 0 + 1, "float32")
        if weights is not None:
            factors = ops.cast(weights, "float32")
        if self._layer.mask_zero:
            factors = factors * ops.cast(ops.not_equal(ids, 0), "float32")
        axis = len(ids.shape) - 1
        total = ops.sum(rows * ops.expand_dims(factors, -1), axis=axis)
        combiner = self._layer.combiner
        if combiner == "sum":
            return total
        squared = factors * factors if combiner == "sqrtn" else factors
        count = ops.expand_dims(ops.sum(squared, axis=axis), -1)
        if combiner == "sqrtn":
            count = ops.sqrt(count)
        return ops.divide_no_nan(total, count)


def _new_name(stem: str, taken: set[str]) -> str:
    name, number = stem, 1
    while name in taken:
        name, number = f"{stem}_{number}", number + 1
    taken.add(name)
    return name


def _frozen(
    name: str, values: np.ndarray, dtype: str, mask_zero: bool = False
) -> Callable[[Any], Any]:
    """Returns an Embedding layer with these rows, which nothing trains."""
    layer = keras.layers.Embedding(
        max(1, len(values)),
        values.shape[1],
        embeddings_initializer="zeros",
        mask_zero=mask_zero,
        trainable=False,
        dtype=dtype,
        name=name,
    )
    layer.build()
    if len(values):
        layer.set_weights([values])
    return layer
