"""What a model is called on, as a text that outlives the data."""

import json
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from elastic_keras.config import ConfigError


class _Unwritten(Exception):  # noqa: N818 - never leaves this file
    """There is no text for it."""


def write_features(spec: Any) -> str:
    """Returns the canonical JSON of nested specs, without the batch's size.

    Args:
        spec: Nested dicts, lists and tuples of `tf.TypeSpec`s; the first
            axis is the batch.

    Returns:
        The text; empty for what has no text, such as a named tuple.
    """
    try:
        plain = _plain(spec)
    except _Unwritten:
        return ""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def read_features(text: str) -> Any:
    """Returns the specs that `write_features` was given, their batch open.

    Args:
        text: The JSON.

    Raises:
        ConfigError: It is none.
    """
    try:
        return _spec(json.loads(text))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"Not the features of a model: {error!r}. Received: {text[:80]!r}"
        ) from error


def known_shapes(spec: Any, sample: Any) -> Any:
    """Returns specs with ranks, where a dataset does not tell them.

    Args:
        spec: Nested specs of a dataset's batches.
        sample: Those of one batch: ranks are known, but perhaps also lengths
            that are this batch's own.
    """
    return tf.nest.map_structure(
        lambda told, seen: seen if _has_no_rank(told) else told, spec, sample
    )


def _has_no_rank(spec: Any) -> bool:
    # What stands for `None` in a dataset's spec has no shape.
    return hasattr(spec, "shape") and spec.shape.rank is None


def _plain(spec: Any) -> Any:
    if isinstance(spec, Mapping):
        if not all(isinstance(key, str) for key in spec):
            raise _Unwritten
        return {"dict": {key: _plain(part) for key, part in spec.items()}}
    if type(spec) in (list, tuple):
        return {type(spec).__name__: [_plain(part) for part in spec]}
    return _plain_leaf(spec)


def _plain_leaf(spec: Any) -> Any:
    name = next((n for kind, n in _KINDS.items() if isinstance(spec, kind)), "")
    if not name or spec.shape.rank is None or spec.dtype == tf.variant:
        raise _Unwritten
    plain = {"dtype": spec.dtype.name, "shape": spec.shape.as_list()[1:]}
    if name == "ragged":
        plain["ragged_rank"] = spec.ragged_rank
        plain["row_splits_dtype"] = spec.row_splits_dtype.name
    return {name: plain}


_KINDS = {
    tf.TensorSpec: "dense",
    tf.RaggedTensorSpec: "ragged",
    tf.SparseTensorSpec: "sparse",
}


def _spec(plain: Any) -> Any:
    ((kind, value),) = plain.items()
    if kind == "dict":
        return {key: _spec(part) for key, part in value.items()}
    if kind in ("list", "tuple"):
        parts = [_spec(part) for part in value]
        return parts if kind == "list" else tuple(parts)
    shape, dtype = [None, *value["shape"]], tf.as_dtype(value["dtype"])
    if kind == "dense":
        return tf.TensorSpec(shape, dtype)
    if kind == "sparse":
        return tf.SparseTensorSpec(shape, dtype)
    if kind == "ragged":
        return tf.RaggedTensorSpec(
            shape,
            dtype,
            value["ragged_rank"],
            tf.as_dtype(value["row_splits_dtype"]),
        )
    raise ValueError(f"No kind of feature. Received: {kind!r}")
