import collections
import json

import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.worker.features import (
    known_shapes,
    read_features,
    write_features,
)

SPECS = [
    tf.TensorSpec([None, 3], tf.float32),
    {"b": tf.TensorSpec([None], tf.string), "a": tf.TensorSpec([None, None])},
    (tf.TensorSpec([None], tf.int32), [tf.TensorSpec([None], tf.bool)]),
    {"t": tf.RaggedTensorSpec([None, None, None], tf.int64, 2, tf.int32)},
    {"s": tf.SparseTensorSpec([None, 100], tf.int64), "x": {}},
]


@pytest.mark.parametrize("spec", SPECS)
def test_comes_back(spec):
    text = write_features(spec)
    read = read_features(text)
    tf.nest.assert_same_structure(spec, read, expand_composites=True)
    assert tf.nest.flatten(spec) == tf.nest.flatten(read)
    assert write_features(read) == text


def test_the_batch_is_not_in_it():
    text = write_features({"x": tf.TensorSpec([64, 3], tf.float32, name="n")})
    assert json.loads(text) == {
        "dict": {"x": {"dense": {"dtype": "float32", "shape": [3]}}}
    }


@pytest.mark.parametrize(
    "spec",
    [
        collections.namedtuple("Pair", "a b")(*[tf.TensorSpec([None])] * 2),
        {1: tf.TensorSpec([None])},
        tf.TensorSpec(None),
        tf.type_spec_from_value(None),
        tf.TensorSpec([None], tf.variant),
    ],
)
def test_what_has_no_text(spec):
    assert write_features(spec) == ""


def test_a_batch_tells_what_a_dataset_does_not():
    spec = {
        "a": tf.TensorSpec(None, tf.int64),
        "b": tf.TensorSpec([None, None]),
    }
    seen = {
        "a": tf.TensorSpec([None, 3], tf.int64),
        "b": tf.TensorSpec([None, 7]),
    }
    known = known_shapes(spec, seen)
    assert known["a"].shape.as_list() == [None, 3]
    assert known["b"].shape.as_list() == [None, None]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"dense":{}}', '{"x":[]}'])
def test_no_features(text):
    with pytest.raises(ConfigError, match="Not the features of a model"):
        read_features(text)
