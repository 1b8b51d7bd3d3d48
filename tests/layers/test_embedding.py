import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.layers import Embedding

IDS = np.array([[1, 2, 0], [7, -5, 2**40]], np.int64)


def with_rows(**options):
    layer = Embedding(2, **options)
    ids = np.array([0, 1, 2, 7, -5, 2**40])
    rows = np.arange(12, dtype=np.float32).reshape(6, 2)
    layer.assign_rows(ids, rows, seed=3, table_index=0)
    return layer, dict(zip(ids.tolist(), rows, strict=True))


def bag(rows, ids, combiner, weights=None):
    weights = np.ones(len(ids)) if weights is None else np.array(weights)
    total = sum(
        (w * rows[i] for i, w in zip(ids, weights, strict=True)), np.zeros(2)
    )
    if not len(ids):
        return total
    if combiner == "mean":
        return total / weights.sum()
    if combiner == "sqrtn":
        return total / np.sqrt(np.square(weights).sum())
    return total


def test_gives_one_row_per_id_of_any_rank():
    layer, rows = with_rows()
    for ids in (IDS, IDS[0], IDS[0, 0], IDS[None]):
        expected = np.array([rows[i] for i in np.ravel(ids)])
        np.testing.assert_array_equal(
            layer(tf.constant(ids)), expected.reshape((*ids.shape, 2))
        )


def test_initial_values_depend_on_the_id_alone():
    layer = Embedding(4, keras.initializers.RandomUniform(-1, 1, seed=5))
    again = Embedding(4, keras.initializers.RandomUniform(-1, 1, seed=5))
    other = Embedding(4, keras.initializers.RandomUniform(-1, 1, seed=6))
    first = layer(tf.constant([3, 9, 3])).numpy()
    np.testing.assert_array_equal(first[0], first[2])
    assert not np.array_equal(first[0], first[1])
    np.testing.assert_array_equal(first[1], again(tf.constant([9]))[0])
    assert not np.array_equal(first[1], other(tf.constant([9])).numpy()[0])
    assert np.abs(first).max() <= 1


def test_reads_hold_no_rows():
    layer = Embedding(4)
    layer(tf.range(100))
    assert len(layer._local.ids) == 0


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [False, True])
def test_combines_dense_ragged_and_sparse_bags(combiner, weighted):
    layer, rows = with_rows(combiner=combiner)
    bags = [[1, 2, 2], [], [7, -5]]
    weights = [[0.5, 2.0, 1.0], [], [3.0, 0.25]]
    expected = [
        bag(rows, ids, combiner, w if weighted else None)
        for ids, w in zip(bags, weights, strict=True)
    ]
    ragged = tf.ragged.constant(bags, tf.int64)
    ragged_weights = tf.ragged.constant(weights, tf.float32)
    given = [ragged_weights] if weighted else []
    np.testing.assert_allclose(layer(ragged, *given), expected, rtol=1e-6)
    # to_sparse would drop nothing here: no id is zero.
    given = [ragged_weights.to_sparse()] if weighted else []
    np.testing.assert_allclose(
        layer(ragged.to_sparse(), *given), expected, rtol=1e-6
    )
    given = [tf.constant([weights[0]])] if weighted else []
    np.testing.assert_allclose(
        layer(tf.constant([bags[0]]), *given), expected[:1], rtol=1e-6
    )


def test_combines_the_last_axis_of_higher_ranks():
    layer, rows = with_rows(combiner="sum")
    nested = tf.ragged.constant([[[1, 2], []], [[7]]], tf.int64)
    result = layer(nested)
    assert isinstance(result, tf.RaggedTensor)
    np.testing.assert_allclose(result[0][0], rows[1] + rows[2])
    np.testing.assert_allclose(result[0][1], [0, 0])
    np.testing.assert_allclose(result[1][0], rows[7])
    inner = tf.RaggedTensor.from_row_lengths(
        tf.constant([[1, 2], [2, 2], [7, 0]], tf.int64), [2, 1]
    )
    np.testing.assert_allclose(layer(inner)[1][0], rows[7] + rows[0])
    sparse = tf.SparseTensor([[0, 1, 0], [1, 0, 2]], [1, 7], [2, 2, 3])
    sparse = tf.cast(sparse, tf.int64)
    expected = np.zeros((2, 2, 2))
    expected[0, 1], expected[1, 0] = rows[1], rows[7]
    np.testing.assert_allclose(layer(sparse), expected)


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_mask_zero_leaves_id_zero_out_of_bags(combiner):
    layer, rows = with_rows(combiner=combiner, mask_zero=True)
    result = layer(tf.constant([[1, 0, 2], [0, 0, 0]]))
    np.testing.assert_allclose(
        result, [bag(rows, [1, 2], combiner), [0, 0]], rtol=1e-6
    )
    assert layer.compute_mask(tf.constant([[1, 0]])) is None


def test_mask_zero_without_combiner_gives_a_keras_mask():
    layer, _ = with_rows(mask_zero=True)
    mask = layer.compute_mask(tf.constant([[1, 0]]))
    np.testing.assert_array_equal(mask, [[True, False]])
    inputs = keras.Input((3,), dtype="int64")
    model = keras.Model(inputs, keras.layers.LSTM(2)(layer(inputs)))
    padded = model.predict(np.array([[1, 2, 0]]), verbose=0)
    longer = model.predict(np.array([[1, 2, 7]]), verbose=0)
    assert not np.allclose(padded, longer)
    short = keras.Model(inputs, layer(inputs))(np.array([[1, 2, 0]]))
    assert short._keras_mask.numpy().tolist() == [[True, True, False]]


def test_keeps_ragged_rows_without_combiner():
    layer, rows = with_rows()
    result = layer(tf.ragged.constant([[1], [], [2, 7]], tf.int64))
    assert isinstance(result, tf.RaggedTensor)
    assert result.row_lengths().numpy().tolist() == [1, 0, 2]
    np.testing.assert_array_equal(result[2][1], rows[7])


def test_casts_to_the_compute_dtype_and_never_rounds_ids():
    layer, rows = with_rows(dtype="mixed_float16")
    result = layer(tf.constant([2**40, 2**40 + 1]))
    assert result.dtype == tf.float16
    np.testing.assert_array_equal(result[0], rows[2**40])
    assert not np.array_equal(result[1], rows[2**40])


def test_static_shapes_agree_with_real_ones():
    inputs = keras.Input((3,), dtype="int64")
    for options, shape in (
        ({}, (None, 3, 2)),
        ({"combiner": "sum"}, (None, 2)),
    ):
        layer = Embedding(2, **options)
        output = layer(inputs)
        assert output.shape == shape
        assert layer.compute_output_shape((None, 3)) == shape
        real = keras.Model(inputs, output).predict(IDS[:, :3], verbose=0)
        assert real.shape == (2, *shape[1:])
    ragged = keras.Input((None,), dtype="int64", ragged=True)
    model = keras.Model(ragged, Embedding(2, combiner="mean")(ragged))
    assert model.output_shape == (None, 2)
    ids = tf.ragged.constant([[1, 2], [3]], tf.int64)
    assert model(ids).shape == (2, 2)


def test_config_holds_everything():
    layer = Embedding(
        4,
        embeddings_initializer=keras.initializers.RandomNormal(0.1, 0.2, 3),
        combiner="sqrtn",
        mask_zero=True,
        optimizer=keras.optimizers.Adagrad(0.3, clipnorm=1.0),
        embeddings_regularizer=keras.regularizers.L2(0.01),
        embeddings_constraint=keras.constraints.MaxNorm(3, axis=1),
        activity_regularizer=keras.regularizers.L1(0.02),
        name="ids",
        dtype="mixed_bfloat16",
    )
    again = Embedding.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again.embeddings_initializer.stddev == 0.2
    assert again.combiner == "sqrtn"
    assert again.mask_zero
    assert isinstance(again.optimizer, keras.optimizers.Adagrad)
    assert again.optimizer.clipnorm == 1.0
    assert float(again.embeddings_regularizer.l2) == pytest.approx(0.01)
    assert again.embeddings_constraint.axis == 1
    assert float(again.activity_regularizer.l1) == pytest.approx(0.02)
    assert again.compute_dtype == "bfloat16"


@pytest.mark.parametrize("suffix", [".keras", ".weights.h5"])
def test_saves_and_loads_rows_and_initial_values(tmp_path, suffix):
    def build():
        inputs = keras.Input((3,), dtype="int64")
        layer = Embedding(
            2, optimizer=keras.optimizers.SGD(0.5), combiner="sum", name="bag"
        )
        return keras.Model(inputs, keras.layers.Dense(1)(layer(inputs)))

    model = build()
    model.get_layer("bag").assign_rows(
        np.array([1, 7]), np.ones((2, 2), np.float32), seed=9, table_index=4
    )
    expected = model.predict(IDS, verbose=0)
    path = str(tmp_path / f"model{suffix}")
    if suffix == ".keras":
        model.save(path)
        loaded = keras.models.load_model(path)
    else:
        model.save_weights(path)
        loaded = build()
        loaded.load_weights(path)
    # 1 and 7 have rows, the others initial values.
    np.testing.assert_array_equal(loaded.predict(IDS, verbose=0), expected)
    np.testing.assert_array_equal(loaded.get_layer("bag")._local.ids, [1, 7])


@pytest.mark.parametrize("save", ["save", "save_weights"])
def test_a_model_whose_rows_are_on_shards_is_not_saved(tmp_path, save):
    layer, _ = with_rows(name="ids")
    model = keras.Sequential([layer, keras.layers.Flatten()])
    model.predict(IDS, verbose=0)
    layer.join_job()
    suffix = ".keras" if save == "save" else ".weights.h5"
    path = tmp_path / f"model{suffix}"
    with pytest.raises(ConfigError, match=r"cannot be saved there.*'ids'"):
        getattr(model, save)(path)
    layer.assign_rows(
        np.array([1]), np.ones((1, 2), np.float32), seed=0, table_index=0
    )
    getattr(model, save)(tmp_path / f"again{suffix}")


def test_fit_trains_the_rest_and_warns_once():
    layer, rows = with_rows()
    model = keras.Sequential(
        [layer, keras.layers.Flatten(), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    with pytest.warns(UserWarning, match="rows train in an elastic_keras job"):
        model.fit(IDS, np.ones((2, 1)), verbose=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(IDS, np.ones((2, 1)), verbose=0)
        model.predict(IDS, verbose=0)
    np.testing.assert_array_equal(layer(tf.constant([7]))[0], rows[7])


def test_in_a_job_it_needs_a_step():
    layer = Embedding(2, name="ids")
    layer.join_job()
    with pytest.raises(ConfigError, match=r"only be called in a step.*'ids'"):
        layer(tf.constant([1]))
    layer.assign_rows(
        np.array([1]), np.ones((1, 2), np.float32), seed=0, table_index=0
    )
    np.testing.assert_array_equal(layer(tf.constant([1])), [[1, 1]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output_dim": 0}, "positive int.*output_dim=0"),
        ({"output_dim": 2.0}, "positive int.*output_dim=2.0"),
        ({"output_dim": 2, "combiner": "max"}, "sum, mean, sqrtn.*'max'"),
        (
            {"output_dim": 2, "embeddings_initializer": "orthogonal"},
            "glorot_uniform.*Orthogonal",
        ),
    ],
)
def test_refuses_wrong_arguments(options, message):
    with pytest.raises(ConfigError, match=message):
        Embedding(**options)


def test_refuses_wrong_inputs():
    with pytest.raises(ConfigError, match=r"StringLookup.*string"):
        Embedding(2)(tf.constant(["a"]))
    with pytest.raises(ConfigError, match="needs a combiner for sparse"):
        Embedding(2)(tf.sparse.from_dense([[1]]))
    with pytest.raises(ConfigError, match="weights only with a combiner"):
        Embedding(2)(tf.constant([[1]]), tf.constant([[1.0]]))
    with pytest.raises(ConfigError, match="reduces the last axis"):
        Embedding(2, combiner="sum")(tf.constant(1))


def test_refuses_rows_that_do_not_fit():
    layer = Embedding(2)
    ones = np.ones((2, 2), np.float32)
    with pytest.raises(ValueError, match=r"\(n, 2\).*\(1,\)"):
        layer.assign_rows(np.array([1]), ones, seed=0, table_index=0)
    with pytest.raises(ValueError, match="id 4 twice"):
        layer.assign_rows(np.array([4, 4]), ones, seed=0, table_index=0)
