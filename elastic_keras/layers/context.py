"""Where a PS embedding layer takes its rows from while it is called.

A job's worker activates a `LookupContext` around the model's call; outside
a job there is none, and a layer falls back on its own rows.
"""

import abc
import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import tensorflow as tf


class LookupContext(abc.ABC):
    """Answers the lookups of PS embedding layers."""

    @abc.abstractmethod
    def lookup(self, layer: Any, ids: tf.Tensor) -> tf.Tensor:
        """Returns the rows of `ids`.

        Args:
            layer: The layer that asks; it has a `name` and an `output_dim`.
            ids: int64 tensor of any shape.

        Returns:
            float32 tensor of shape `ids.shape + (output_dim,)`.
        """


_ACTIVE: contextvars.ContextVar[LookupContext | None] = contextvars.ContextVar(
    "elastic_keras_lookup", default=None
)


def active_context() -> LookupContext | None:
    """Returns the context of the innermost `lookup_scope`, or `None`."""
    return _ACTIVE.get()


@contextlib.contextmanager
def lookup_scope(context: LookupContext) -> Iterator[None]:
    """Makes `context` answer lookups inside the `with` block."""
    token = _ACTIVE.set(context)
    try:
        yield
    finally:
        _ACTIVE.reset(token)


class ZeroRows(LookupContext):
    """Rows of zeros: to build or trace a model without any table."""

    def lookup(self, layer: Any, ids: tf.Tensor) -> tf.Tensor:
        return zero_rows(ids, layer.output_dim)


def zero_rows(ids: tf.Tensor, dim: int) -> tf.Tensor:
    """Returns zeros of shape `ids.shape + (dim,)`."""
    rows = tf.zeros(tf.concat([tf.shape(ids), [dim]], 0), tf.float32)
    rows.set_shape(ids.shape.concatenate([dim]))
    return rows
