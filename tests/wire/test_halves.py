"""float32 to half types, value by value."""

import ml_dtypes
import numpy as np
import pytest

from elastic_keras.wire import halves


def _there_and_back(values, wire_dtype):
    bits = halves.narrow(np.array(values, np.float32), wire_dtype)
    assert bits.dtype == np.uint16
    return halves.widen(bits, wire_dtype)


@pytest.mark.parametrize(
    ("wire_dtype", "largest"),
    [
        ("float16", 65504.0),
        ("bfloat16", float(ml_dtypes.finfo(ml_dtypes.bfloat16).max)),
    ],
)
def test_overflow_saturates_but_inf_and_nan_stay(wire_dtype, largest):
    huge = np.finfo(np.float32).max
    got = _there_and_back(
        [huge, -huge, np.inf, -np.inf, np.nan, largest, 1.0], wire_dtype
    )
    np.testing.assert_array_equal(
        got, [largest, -largest, np.inf, -np.inf, np.nan, largest, 1.0]
    )


def test_a_nan_beside_an_overflow_does_not_hide_it():
    got = _there_and_back([np.nan, 1e30, -1e30], "float16")
    np.testing.assert_array_equal(got, [np.nan, 65504.0, -65504.0])


@pytest.mark.parametrize("wire_dtype", ["float16", "bfloat16"])
def test_every_half_comes_back_exactly(wire_dtype):
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = halves.widen(bits, wire_dtype)
    number = ~np.isnan(wide)
    np.testing.assert_array_equal(
        halves.narrow(wide[number], wire_dtype), bits[number]
    )
    again = halves.widen(halves.narrow(wide, wire_dtype), wire_dtype)
    np.testing.assert_array_equal(np.isnan(again), np.isnan(wide))


@pytest.mark.parametrize("wire_dtype", ["float16", "bfloat16"])
def test_ties_go_to_even(wire_dtype):
    one = halves.narrow(np.ones(1, np.float32), wire_dtype)[0]
    steps = halves.widen(
        np.array([one, one + 1, one + 2], np.uint16), wire_dtype
    )
    ties = (steps[:-1] + steps[1:]) / 2
    got = halves.narrow(ties, wire_dtype)
    # `one` is even: down to it, and up to the even one after it.
    np.testing.assert_array_equal(got, [one, one + 2])


@pytest.mark.parametrize("wire_dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (2, 3)])
def test_shapes_are_kept(wire_dtype, shape):
    bits = halves.narrow(np.zeros(shape, np.float32), wire_dtype)
    assert bits.shape == shape
    assert halves.widen(bits, wire_dtype).shape == shape
