"""Reduces the rows of a bag of ids to one vector."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

COMBINERS = ("sum", "mean", "sqrtn")

Lookup = Callable[[tf.Tensor], tf.Tensor]


def look_up_each(ids: Any, lookup: Lookup) -> Any:
    """Returns one row per id.

    Args:
        ids: int64 dense or ragged tensor.
        lookup: Rows of a dense int64 tensor: shape `ids.shape + (dim,)`.
    """
    if isinstance(ids, tf.RaggedTensor):
        return ids.with_flat_values(lookup(ids.flat_values))
    return lookup(ids)


def look_up_bags(
    ids: Any,
    lookup: Lookup,
    combiner: str,
    weights: Any = None,
    leave_out_zero: bool = False,
) -> Any:
    """Returns one vector per bag: the last axis of `ids` is reduced.

    With weights w, `sum` is the sum of w * row, `mean` divides it by the sum
    of w and `sqrtn` by the root of the sum of w squared. An empty bag gives
    zeros.

    Args:
        ids: int64 dense, ragged or sparse tensor of rank 1 or more.
        lookup: Rows of a dense int64 tensor.
        combiner: One of `COMBINERS`.
        weights: Weights of the ids, of the same kind and shape, or `None`.
        leave_out_zero: Whether id 0 is padding and not in any bag.
    """
    if isinstance(ids, tf.SparseTensor):
        return _sparse(ids, lookup, combiner, weights, leave_out_zero)
    if isinstance(ids, tf.RaggedTensor):
        return _ragged(ids, lookup, combiner, weights, leave_out_zero)
    factors = _factors(ids, weights, leave_out_zero)
    return _dense(lookup(ids), factors, combiner)


def _factors(ids: tf.Tensor, weights: Any, leave_out_zero: bool) -> Any:
    """Returns what each row is multiplied by; `None` means one."""
    if weights is not None:
        weights = tf.cast(weights, tf.float32)
    if not leave_out_zero:
        return weights
    kept = tf.cast(tf.not_equal(ids, 0), tf.float32)
    return kept if weights is None else kept * weights


def _dense(rows: tf.Tensor, factors: Any, combiner: str) -> tf.Tensor:
    if factors is None:
        total = tf.reduce_sum(rows, axis=-2)
        count = tf.cast(tf.shape(rows)[-2], tf.float32)
        return _scaled(total, count, count, combiner)
    total = tf.reduce_sum(rows * factors[..., None], axis=-2)
    return _scaled(
        total,
        tf.reduce_sum(factors, axis=-1, keepdims=True),
        tf.reduce_sum(tf.square(factors), axis=-1, keepdims=True),
        combiner,
    )


def _scaled(
    total: tf.Tensor, sum_of: tf.Tensor, squares: tf.Tensor, combiner: str
) -> tf.Tensor:
    if combiner == "mean":
        return tf.math.divide_no_nan(total, sum_of)
    if combiner == "sqrtn":
        return tf.math.divide_no_nan(total, tf.sqrt(squares))
    return total


def _segments(
    rows: tf.Tensor,
    factors: Any,
    segments: tf.Tensor,
    count: tf.Tensor,
    combiner: str,
) -> tf.Tensor:
    if factors is None:
        factors = tf.ones_like(segments, tf.float32)
    else:
        rows = rows * factors[:, None]
    factors = factors[:, None]
    return _scaled(
        tf.math.unsorted_segment_sum(rows, segments, count),
        tf.math.unsorted_segment_sum(factors, segments, count),
        tf.math.unsorted_segment_sum(tf.square(factors), segments, count),
        combiner,
    )


def _sparse(
    ids: tf.SparseTensor,
    lookup: Lookup,
    combiner: str,
    weights: Any,
    leave_out_zero: bool,
) -> tf.Tensor:
    if isinstance(weights, tf.SparseTensor):
        weights = weights.values
    factors = _factors(ids.values, weights, leave_out_zero)
    rows = lookup(ids.values)
    outer = ids.dense_shape[:-1]
    # Position of each id's bag among all bags, row-major.
    strides = tf.math.cumprod(outer, exclusive=True, reverse=True)
    bags = tf.reduce_sum(ids.indices[:, :-1] * strides, axis=1)
    vectors = _segments(rows, factors, bags, tf.reduce_prod(outer), combiner)
    dim = rows.shape[-1]
    result = tf.reshape(vectors, tf.concat([outer, [dim]], 0))
    result.set_shape([*ids.shape[:-1], dim])
    return result


def _ragged(
    ids: tf.RaggedTensor,
    lookup: Lookup,
    combiner: str,
    weights: Any,
    leave_out_zero: bool,
) -> Any:
    if isinstance(weights, tf.RaggedTensor):
        weights = weights.flat_values
    flat = ids.flat_values
    rows = lookup(flat)
    factors = _factors(flat, weights, leave_out_zero)
    if flat.shape.rank != 1:
        # The last axis is a uniform one inside the ragged axes.
        return ids.with_flat_values(_dense(rows, factors, combiner))
    return _innermost(
        ids,
        lambda inner: _segments(
            rows, factors, inner.value_rowids(), inner.nrows(), combiner
        ),
    )


def _innermost(ids: tf.RaggedTensor, reduce: Callable[[Any], tf.Tensor]) -> Any:
    """Replaces the innermost ragged axis by what `reduce` makes of it."""
    if isinstance(ids.values, tf.RaggedTensor):
        return ids.with_values(_innermost(ids.values, reduce))
    return reduce(ids)
