"""Keras initializers as the distributions that shards compute."""

import math
from typing import Any

import keras

from elastic_keras.config import ConfigError
from elastic_keras.signature import InitializerSpec

SUPPORTED = (
    "zeros, ones, constant (a number), random_uniform, random_normal, "
    "truncated_normal, variance_scaling, glorot_uniform, glorot_normal, "
    "he_uniform, he_normal, lecun_uniform, lecun_normal"
)

# The standard deviation of a standard normal that is cut off at two.
_TRUNCATED_STDDEV = 0.87962566103423978


def initializer_spec(
    initializer: Any, output_dim: int, input_dim: int = 1
) -> InitializerSpec:
    """Returns the distribution that a Keras initializer draws from.

    Variance scaling needs fans. A table without a vocabulary size counts as
    a matrix of one row, `(1, output_dim)`: a lookup is a product with a
    one-hot vector, of which one entry is active.

    Args:
        initializer: A `keras.initializers.Initializer`, a name or a config.
        output_dim: Width of a row.
        input_dim: Number of rows where it is known (a Keras Embedding).

    Raises:
        ConfigError: Shards cannot compute this initializer row by row.
    """
    # Exact types: a subclass may draw something else.
    initializer = keras.initializers.get(initializer)
    kind = type(initializer)
    known = keras.initializers
    if kind is known.Zeros:
        return InitializerSpec("constant", 0.0)
    if kind is known.Ones:
        return InitializerSpec("constant", 1.0)
    if kind is known.Constant and _is_number(initializer.value):
        return InitializerSpec("constant", float(initializer.value))
    if kind is known.RandomUniform:
        return InitializerSpec(
            "uniform", float(initializer.minval), float(initializer.maxval)
        )
    if kind in (known.RandomNormal, known.TruncatedNormal):
        name = "normal" if kind is known.RandomNormal else "truncated_normal"
        return InitializerSpec(
            name, float(initializer.mean), float(initializer.stddev)
        )
    if kind in _SCALING_KINDS:
        return _variance_scaling(initializer, input_dim, output_dim)
    raise ConfigError(
        f"Shards cannot compute this initializer; use one of {SUPPORTED}. "
        f"Received: embeddings_initializer={_name(initializer)}"
    )


_SCALING_KINDS = (
    keras.initializers.VarianceScaling,
    keras.initializers.GlorotUniform,
    keras.initializers.GlorotNormal,
    keras.initializers.HeUniform,
    keras.initializers.HeNormal,
    keras.initializers.LecunUniform,
    keras.initializers.LecunNormal,
)


def _name(initializer: Any) -> str:
    """Returns how a person would name an initializer."""
    name = getattr(initializer, "__name__", type(initializer).__name__)
    if isinstance(initializer, keras.initializers.Constant):
        return f"{name} of an array"
    return name


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _variance_scaling(
    initializer: Any, input_dim: int, output_dim: int
) -> InitializerSpec:
    fan_in, fan_out = _fans(initializer, (input_dim, output_dim))
    fan = {
        "fan_in": fan_in,
        "fan_out": fan_out,
        "fan_avg": (fan_in + fan_out) / 2.0,
    }[initializer.mode]
    scale = initializer.scale / max(1.0, fan)
    if initializer.distribution == "truncated_normal":
        stddev = math.sqrt(scale) / _TRUNCATED_STDDEV
        return InitializerSpec("truncated_normal", 0.0, stddev)
    if initializer.distribution == "untruncated_normal":
        return InitializerSpec("normal", 0.0, math.sqrt(scale))
    limit = math.sqrt(3.0 * scale)
    return InitializerSpec("uniform", -limit, limit)


def _fans(initializer: Any, shape: tuple[int, int]) -> tuple[int, int]:
    # Keras before 3.12 has no axes here.
    input_axes = getattr(initializer, "input_axes", None)
    output_axes = getattr(initializer, "output_axes", None)
    if input_axes is None or output_axes is None:
        return shape
    return (
        math.prod(shape[axis] for axis in input_axes),
        math.prod(shape[axis] for axis in output_axes),
    )
