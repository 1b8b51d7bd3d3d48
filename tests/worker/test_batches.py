import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.worker.batches import open_batch, spec_of, unpack

X = np.ones((2, 3), np.float32)
Y = np.ones((2,), np.float32)


def test_takes_batches_apart_as_keras_does():
    assert unpack({"x": 1}) == ({"x": 1}, None, None)
    assert unpack((1,)) == (1, None, None)
    assert unpack((1, 2)) == (1, 2, None)
    assert unpack([1, 2, 3]) == (1, 2, 3)
    with pytest.raises(ConfigError, match="Received: 4 parts"):
        unpack((1, 2, 3, 4))


def test_a_part_that_is_none_is_not_there():
    dataset = tf.data.Dataset.from_tensors((X, Y)).map(
        lambda x, y: (x, y, None)
    )
    spec = open_batch(dataset.element_spec)
    assert unpack(spec).weights is None
    assert unpack(spec).labels == tf.TensorSpec((None,))


def test_opens_the_batch_of_every_kind_of_tensor():
    ragged = tf.ragged.constant([[1], [2, 3]], tf.int64)
    spec = spec_of(({"a": X, "r": ragged}, (tf.sparse.from_dense(X), Y)))
    features, (sparse, labels) = spec
    assert features["a"] == tf.TensorSpec((None, 3))
    assert features["r"].shape.as_list() == [None, None]
    assert features["r"].row_splits_dtype == tf.int64
    assert sparse == tf.SparseTensorSpec((None, 3), tf.float32)
    assert labels == tf.TensorSpec((None,))
    assert features["r"].is_compatible_with(
        tf.ragged.constant([[1], [2, 3], []], tf.int64)
    )


def test_refuses_what_has_no_batch():
    with pytest.raises(ConfigError, match="the batch as its first axis"):
        spec_of({"x": np.float32(1)})
    with pytest.raises(ConfigError, match="dense, ragged or sparse"):
        open_batch(tf.TensorArraySpec((2,), tf.float32))
