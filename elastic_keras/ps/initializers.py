"""Initial values of rows: a pure function of (seed, table, id, column).

No state is kept, so that a row begins with the same bits on any shard, in
any order, and as often as it is read before it exists.

References:
    Steele, Lea, Flood: Fast splittable pseudorandom number generators,
    OOPSLA 2014, figure 17 (the generator).
    Wichura: Algorithm AS 241: the percentage points of the normal
    distribution, Applied Statistics 37, 1988, PPND16 (its inverse).
"""

import math

import numpy as np
from numba import njit

from elastic_keras.ps.arrays import frozen
from elastic_keras.ps.pointers import pointer
from elastic_keras.signature import InitializerSpec

CONSTANT = 0
UNIFORM = 1
NORMAL = 2
TRUNCATED_NORMAL = 3
KINDS = {
    "constant": CONSTANT,
    "uniform": UNIFORM,
    "normal": NORMAL,
    "truncated_normal": TRUNCATED_NORMAL,
}

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = map(np.uint64, (30, 27, 31, 11))
_BELOW_ONE = 2.0**-53
# Probability of a normal below two deviations, and the share within them.
TWO_BELOW = 0.5 * math.erfc(math.sqrt(2.0))
WITHIN_TWO = math.erf(math.sqrt(2.0))


@njit(nogil=True, cache=True, error_model="numpy")
def scramble(x):  # type: ignore[no-untyped-def]
    """Returns 64 well mixed bits of 64 bits, one to one."""
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


# Coefficients of PPND16, highest power first: numerator and denominator for
# the middle, for r <= 5 and for the far tail.
MIDDLE_TOP = (
    2.5090809287301226727e3,
    3.3430575583588128105e4,
    6.7265770927008700853e4,
    4.5921953931549871457e4,
    1.3731693765509461125e4,
    1.9715909503065514427e3,
    1.3314166789178437745e2,
    3.3871328727963666080e0,
)
MIDDLE_BOTTOM = (
    5.2264952788528545610e3,
    2.8729085735721942674e4,
    3.9307895800092710610e4,
    2.1213794301586595867e4,
    5.3941960214247511077e3,
    6.8718700749205790830e2,
    4.2313330701600911252e1,
    1.0,
)
NEAR_TOP = (
    7.74545014278341407640e-4,
    2.27238449892691845833e-2,
    2.41780725177450611770e-1,
    1.27045825245236838258e0,
    3.64784832476320460504e0,
    5.76949722146069140550e0,
    4.63033784615654529590e0,
    1.42343711074968357734e0,
)
NEAR_BOTTOM = (
    1.05075007164441684324e-9,
    5.47593808499534494600e-4,
    1.51986665636164571966e-2,
    1.48103976427480074590e-1,
    6.89767334985100004550e-1,
    1.67638483018380384940e0,
    2.05319162663775882187e0,
    1.0,
)
FAR_TOP = (
    2.01033439929228813265e-7,
    2.71155556874348757815e-5,
    1.24266094738807843860e-3,
    2.65321895265761230930e-2,
    2.96560571828504891230e-1,
    1.78482653991729133580e0,
    5.46378491116411436990e0,
    6.65790464350110377720e0,
)
FAR_BOTTOM = (
    2.04426310338993978564e-15,
    1.42151175831644588870e-7,
    1.84631831751005468180e-5,
    7.86869131145613259100e-4,
    1.48753612908506148525e-2,
    1.36929880922735805310e-1,
    5.99832206555887937690e-1,
    1.0,
)


@njit(nogil=True, cache=True, error_model="numpy")
def _ratio(top, bottom, r):  # type: ignore[no-untyped-def]
    above, below = top[0], bottom[0]
    for k in range(1, 8):
        above = above * r + top[k]
        below = below * r + bottom[k]
    return above / below


@njit(nogil=True, cache=True, error_model="numpy")
def inverse_normal(p):  # type: ignore[no-untyped-def]
    """Returns the z below which a standard normal falls with probability p.

    Relative error about 1e-16.

    Args:
        p: In the open interval (0, 1).
    """
    q = p - 0.5
    if abs(q) <= 0.425:
        return q * _ratio(MIDDLE_TOP, MIDDLE_BOTTOM, 0.180625 - q * q)
    r = math.sqrt(-math.log(min(p, 1.0 - p)))
    if r <= 5.0:
        z = _ratio(NEAR_TOP, NEAR_BOTTOM, r - 1.6)
    else:
        z = _ratio(FAR_TOP, FAR_BOTTOM, r - 5.0)
    return -z if q < 0.0 else z


@njit(nogil=True, cache=True, error_model="numpy")
def fill_row(kind, a, b, key, row_id, out, start, dim):  # type: ignore[no-untyped-def]
    """Writes the initial value of one row.

    Args:
        kind: `CONSTANT`, ...
        a, b: Parameters of the distribution (`InitializerSpec`), float64.
        key: What `stream_key` gives.
        row_id: The id, as uint64.
        out: Address of where to write, float32.
        start: First position to write.
        dim: Columns.
    """
    if kind == CONSTANT:
        for column in range(dim):
            out[start + column] = np.float32(a)
        return
    state = scramble(key ^ scramble(row_id + _GOLDEN))
    for column in range(dim):
        state += _GOLDEN
        # The middle of one of 2^53 equal intervals: never 0, never 1.
        u = (np.float64(scramble(state) >> _S11) + 0.5) * _BELOW_ONE
        if kind == UNIFORM:
            value = a + (b - a) * u
        elif kind == NORMAL:
            value = a + b * inverse_normal(u)
        else:
            value = a + b * inverse_normal(TWO_BELOW + WITHIN_TWO * u)
        out[start + column] = np.float32(value)


@njit(nogil=True, cache=True, error_model="numpy")
def _fill_rows(kind, a, b, key, ids, out, dim):  # type: ignore[no-untyped-def]
    target = pointer(out)
    for i in range(len(ids)):
        fill_row(
            kind, a, b, key, np.uint64(ids[i]), target, np.uint64(i) * dim, dim
        )


def stream_key(seed: int, table_index: int) -> np.uint64:
    """Returns what sets the streams of one table of one job apart."""
    mask = (1 << 64) - 1
    key = np.array([seed & mask], dtype=np.uint64)
    key = _scramble_all(key + _GOLDEN) ^ np.uint64(table_index)
    return _scramble_all(key + _GOLDEN)[0]


def _scramble_all(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> _S30)) * _FIRST
    x = (x ^ (x >> _S27)) * _SECOND
    return x ^ (x >> _S31)


def check(spec: InitializerSpec) -> None:
    """Checks an initializer.

    Raises:
        ValueError: An unknown name, or parameters out of range.
    """
    if spec.name not in KINDS:
        raise ValueError(
            f"An initializer is one of {', '.join(KINDS)}. "
            f"Received: name={spec.name!r}"
        )
    if not (math.isfinite(spec.a) and math.isfinite(spec.b)):
        raise ValueError(
            "The parameters of an initializer are finite numbers. "
            f"Received: a={spec.a!r}, b={spec.b!r}"
        )
    if spec.name in ("normal", "truncated_normal") and spec.b < 0:
        raise ValueError(
            f"A standard deviation is not negative. Received: b={spec.b!r}"
        )


def initial_rows(
    spec: InitializerSpec,
    seed: int,
    table_index: int,
    ids: np.ndarray,
    dim: int,
) -> np.ndarray:
    """Computes the initial values of rows.

    Args:
        spec: The distribution.
        seed: The job's seed.
        table_index: Position of the table in the model's signature.
        ids: int64, (n,).
        dim: Width of a row.

    Returns:
        float32, (n, dim).

    Raises:
        ValueError: A bad initializer, or ids that are not 1-D int64.
    """
    check(spec)
    ids = frozen(ids, np.int64, "ids")
    out = np.empty((len(ids), dim), dtype=np.float32)
    _fill_rows(
        KINDS[spec.name],
        float(spec.a),
        float(spec.b),
        stream_key(seed, table_index),
        ids,
        out.reshape(-1),
        np.uint64(dim),
    )
    return out
