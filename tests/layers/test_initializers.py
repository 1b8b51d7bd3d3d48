import keras
import numpy as np
import pytest

from elastic_keras.config import ConfigError
from elastic_keras.layers.initializers import initializer_spec
from elastic_keras.ps.initializers import initial_rows
from elastic_keras.signature import InitializerSpec

NAMES = [
    "zeros",
    "ones",
    "uniform",
    "random_uniform",
    "normal",
    "random_normal",
    "truncated_normal",
    "variance_scaling",
    "glorot_uniform",
    "glorot_normal",
    "he_uniform",
    "he_normal",
    "lecun_uniform",
    "lecun_normal",
]


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_distributed_as_keras_draws_them(name):
    shape = (4000, 8)
    keras.utils.set_random_seed(1)
    theirs = np.asarray(keras.initializers.get(name)(shape))
    spec = initializer_spec(name, output_dim=8, input_dim=4000)
    ours = initial_rows(spec, 1, 0, np.arange(4000), 8)
    spread = float(theirs.std())
    assert float(ours.mean()) == pytest.approx(
        float(theirs.mean()), abs=0.03 * spread
    )
    assert float(ours.std()) == pytest.approx(spread, rel=0.03)
    if name not in ("normal", "random_normal"):
        # A bounded distribution ends where Keras's ends.
        assert float(np.abs(ours).max()) == pytest.approx(
            float(np.abs(theirs).max()), rel=0.02
        )


def test_values_of_each_kind():
    initializers = keras.initializers
    assert initializer_spec(initializers.Constant(2.5), 4) == InitializerSpec(
        "constant", 2.5
    )
    assert initializer_spec(
        initializers.RandomUniform(-2, 3), 4
    ) == InitializerSpec("uniform", -2.0, 3.0)
    assert initializer_spec(
        initializers.RandomNormal(1, 2), 4
    ) == InitializerSpec("normal", 1.0, 2.0)
    scaling = initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal")
    assert initializer_spec(scaling, 4, 100) == InitializerSpec(
        "normal", 0.0, 0.5**0.5
    )


def test_without_a_vocabulary_a_row_counts_as_a_matrix():
    spec = initializer_spec("glorot_uniform", 5)
    limit = np.sqrt(6 / (1 + 5))
    assert spec.b == pytest.approx(limit)
    assert spec.a == -spec.b


@pytest.mark.parametrize(
    "initializer",
    [
        "orthogonal",
        "identity",
        keras.initializers.Constant(np.ones((2, 2))),
        lambda shape, dtype=None: np.ones(shape),
    ],
)
def test_refuses_what_shards_cannot_compute(initializer):
    with pytest.raises(ConfigError, match="use one of zeros, ones"):
        initializer_spec(initializer, 4)


def test_refuses_a_subclass():
    class Mine(keras.initializers.RandomUniform):
        pass

    with pytest.raises(ConfigError, match=r"Received.*Mine"):
        initializer_spec(Mine(), 4)
