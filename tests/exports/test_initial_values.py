"""Initial values in Keras's operations against those of the shards."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_keras.exports.initial_values import initial_values
from elastic_keras.ps.initializers import initial_rows
from elastic_keras.signature import InitializerSpec

_SPECS = st.one_of(
    st.builds(
        InitializerSpec, st.just("constant"), st.floats(-9, 9), st.just(0.0)
    ),
    st.builds(
        InitializerSpec,
        st.sampled_from(["uniform", "normal", "truncated_normal"]),
        st.floats(-2, 2),
        st.floats(0, 3),
    ),
)
_INT64 = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=60, deadline=None)
@given(
    _SPECS,
    st.integers(0, 2**63 - 1),
    st.integers(0, 100),
    st.lists(_INT64, min_size=1, max_size=20),
    st.integers(1, 20),
)
def test_agrees_with_the_shards(spec, seed, table, ids, dim):
    ids = np.array(ids, np.int64)
    ours = initial_values(spec, seed, table, tf.constant(ids), dim)
    theirs = initial_rows(spec, seed, table, ids, dim)
    assert ours.dtype == tf.float32
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["uniform", "normal", "truncated_normal"])
def test_agrees_far_in_the_tails(name):
    ids = np.arange(300_000)
    spec = InitializerSpec(name, 0.1, 2.0)
    ours = tf.function(
        lambda x: initial_values(spec, 3, 1, x, 4), autograph=False
    )(tf.constant(ids))
    theirs = initial_rows(spec, 3, 1, ids, 4)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("shape", [(), (4,), (4, 4), (1, 4), (4, 1), (4, 4, 4)])
@pytest.mark.parametrize("name", ["constant", "normal"])
def test_any_shape_of_ids(shape, name):
    # Four columns, as many as anything else: no axis is taken for another.
    ids = np.random.default_rng(0).integers(-9, 9, (4, *shape))
    spec = InitializerSpec(name, 0.5, 1.0)
    symbolic = keras.Input(shape, dtype="int64")
    model = keras.Model(symbolic, initial_values(spec, 1, 0, symbolic, 4))
    theirs = initial_rows(spec, 1, 0, ids.reshape(-1), 4)
    for rows in (
        model(tf.constant(ids)),
        initial_values(spec, 1, 0, tf.constant(ids), 4),
    ):
        np.testing.assert_allclose(
            rows, theirs.reshape((*ids.shape, 4)), rtol=1e-6
        )
