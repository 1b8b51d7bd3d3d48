"""Initial values of rows, as the shards give them, in Keras operations.

The same pure function of (seed, table, id, column) as in
`elastic_keras.ps.initializers`, where its sources are named; here it works
on tensors of a graph and on the symbolic tensors of a functional model.
Unsigned numbers are kept in int64, which all of Keras's operations know.
"""

from typing import Any

import keras
import numpy as np

from elastic_keras.config import ConfigError
from elastic_keras.ps import initializers as shards
from elastic_keras.signature import InitializerSpec

_GOLDEN, _FIRST, _SECOND = (
    int(np.uint64(value).astype(np.int64))
    for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def initial_values(
    spec: InitializerSpec, seed: int, table_index: int, ids: Any, dim: int
) -> Any:
    """Returns initial values of rows.

    Args:
        spec: The distribution.
        seed: The job's seed.
        table_index: Position of the table in the model's signature.
        ids: int64 tensor, symbolic or not, `(...)`.
        dim: Width of a row.

    Returns:
        float32, `(..., dim)`.

    Raises:
        ConfigError: This Keras is too old.
    """
    ops = keras.ops
    each = ops.expand_dims(ids, -1)
    if spec.name == "constant":
        row = np.full(dim, spec.a, np.float32)
        return _tensor(row) + ops.cast(each, "float32") * 0.0
    if not hasattr(ops, "bitwise_right_shift"):
        raise ConfigError(
            "To export random initial values takes Keras 3.8 or newer. "
            f"Received: Keras {keras.__version__}"
        )
    key = int(shards.stream_key(seed, table_index).astype(np.int64))
    state = _scramble(
        ops.bitwise_xor(_scramble(each + _tensor(_GOLDEN)), _tensor(key))
    )
    steps = np.arange(1, dim + 1, dtype=np.int64)
    with np.errstate(over="ignore"):
        # In 64 bits, as the shards count.
        steps = steps * np.int64(_GOLDEN)
    # The vector first: as second operand Keras may take it for a bias of
    # channels, which it adds along axis 1.
    bits = _shift_right(_scramble(_tensor(steps) + state), 11)
    uniform = (ops.cast(bits, "float64") + 0.5) * 2.0**-53
    return ops.cast(_distributed(spec, uniform), "float32")


def _distributed(spec: InitializerSpec, uniform: Any) -> Any:
    if spec.name == "uniform":
        return spec.a + (spec.b - spec.a) * uniform
    if spec.name == "truncated_normal":
        uniform = shards.TWO_BELOW + shards.WITHIN_TWO * uniform
    return spec.a + spec.b * _inverse_normal(uniform)


def _inverse_normal(p: Any) -> Any:
    """Returns the z below which a standard normal falls with probability p."""
    ops = keras.ops
    q = p - 0.5
    middle = q * _ratio(
        shards.MIDDLE_TOP, shards.MIDDLE_BOTTOM, 0.180625 - q * q
    )
    r = ops.sqrt(-ops.log(ops.minimum(p, 1.0 - p)))
    near = _ratio(shards.NEAR_TOP, shards.NEAR_BOTTOM, r - 1.6)
    far = _ratio(shards.FAR_TOP, shards.FAR_BOTTOM, r - 5.0)
    tail = ops.where(r <= 5.0, near, far) * ops.sign(q)
    return ops.where(ops.abs(q) <= 0.425, middle, tail)


def _ratio(top: tuple[float, ...], bottom: tuple[float, ...], r: Any) -> Any:
    above = top[0] * r + top[1]
    below = bottom[0] * r + bottom[1]
    for upper, lower in zip(top[2:], bottom[2:], strict=True):
        above = above * r + upper
        below = below * r + lower
    return above / below


def _scramble(x: Any) -> Any:
    """Returns 64 well mixed bits of 64 bits, one to one."""
    xor = keras.ops.bitwise_xor
    x = xor(x, _shift_right(x, 30)) * _tensor(_FIRST)
    x = xor(x, _shift_right(x, 27)) * _tensor(_SECOND)
    return xor(x, _shift_right(x, 31))


def _shift_right(x: Any, bits: int) -> Any:
    """Shifts as if x were unsigned: zeros come in from the left."""
    shifted = keras.ops.bitwise_right_shift(x, _tensor(bits))
    return keras.ops.bitwise_and(shifted, _tensor((1 << (64 - bits)) - 1))


def _tensor(value: Any) -> Any:
    # Python's numbers would be int32 to some operations, and have no dtype
    # to others.
    value = np.asarray(value)
    return keras.ops.convert_to_tensor(value, dtype=value.dtype.name)
