import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.layers import Embedding
from elastic_keras.worker.lookup import Lookup
from elastic_keras.worker.model import prepare
from tests.worker.reference import dataset

layers = keras.layers
IDS = np.array([[5, 2, 5], [-1, 2, 9], [2, 2, 2], [2**40, 0, 5], [1, 1, 3]])
LABELS = np.zeros((5, 1), np.float32)


def prepared(model, batches):
    return prepare(
        model,
        None,
        None,
        None,
        sample_batch=next(iter(batches)),
        seed=0,
        threshold_bytes=0,
    )


def looked_up(model, batches, training=True):
    """Gives, per batch, the ids of each table in the order of lookups."""
    ready = prepared(model, batches)
    lookup = Lookup(ready, batches.element_spec, training=training)
    for batch, ids in lookup.map(batches):
        found = {}
        for spec, table_ids in zip(ready.signature.tables, ids, strict=True):
            found[spec.name] = table_ids.numpy().tolist()
        yield batch, found


def one_table(**options):
    return keras.Sequential(
        [Embedding(2, name="t", **options), layers.Flatten(), layers.Dense(1)]
    )


@pytest.mark.parametrize("form", ["alone", "tuple", "labels", "weights"])
def test_finds_ids_in_every_form_of_batch_and_keeps_it(form):
    element = {
        "alone": IDS,
        "tuple": (IDS,),
        "labels": (IDS, LABELS),
        "weights": (IDS, LABELS, np.ones(5)),
    }[form]
    batches = dataset(element, 2)
    found = list(looked_up(one_table(), batches))
    assert [ids["t"] for _, ids in found] == [
        IDS[:2].ravel().tolist(),
        IDS[2:4].ravel().tolist(),
        IDS[4:].ravel().tolist(),
    ]
    for (batch, _), original in zip(found, batches, strict=True):
        tf.nest.assert_same_structure(batch, original)
        for a, b in zip(
            tf.nest.flatten(batch), tf.nest.flatten(original), strict=True
        ):
            np.testing.assert_array_equal(a, b)


def test_finds_ids_in_nested_features():
    class Nested(keras.Model):
        def __init__(self):
            super().__init__()
            self.first = Embedding(2, name="first", combiner="sum")
            self.second = Embedding(3, name="second", combiner="sum")

        def call(self, features):
            pair, deep = features
            x = self.first(pair[0]) + self.first(deep["a"]["b"] + 100)
            return tf.concat([x, self.second(pair[1])], -1)

    features = ((IDS, IDS + 1), {"a": {"b": IDS[:, :1]}})
    batches = dataset((features, LABELS), 5)
    [(_, found)] = looked_up(Nested(), batches)
    assert found["first"] == [*IDS.ravel(), *(IDS[:, 0] + 100)]
    assert found["second"] == [*(IDS + 1).ravel()]


def test_finds_ragged_and_sparse_ids():
    class Bags(keras.Model):
        def __init__(self):
            super().__init__()
            self.table = Embedding(2, name="t", combiner="mean")

        def call(self, features):
            return self.table(features["r"]) + self.table(features["s"])

    ragged = tf.ragged.constant([[1, 2], [], [3]], tf.int64)
    sparse = tf.sparse.from_dense(np.array([[0, 7], [8, 0], [0, 0]]))
    [(_, found)] = looked_up(Bags(), dataset({"r": ragged, "s": sparse}, 3))
    assert found["t"] == [1, 2, 3, 7, 8]


def test_preprocessing_layers_run_in_the_pruned_graph():
    words = keras.Input((1,), dtype="string", name="words")
    sizes = keras.Input((1,), name="sizes")
    vocabulary = layers.StringLookup(vocabulary=["a", "b"])
    normal = layers.Normalization(mean=10.0, variance=4.0)
    buckets = layers.Discretization(bin_boundaries=[-1.0, 1.0])
    x = [
        Embedding(2, name="word")(vocabulary(words)),
        Embedding(2, name="hash")(layers.Hashing(1000)(words)),
        Embedding(2, name="size")(buckets(normal(sizes))),
    ]
    x = layers.Flatten()(layers.Concatenate()(x))
    model = keras.Model({"words": words, "sizes": sizes}, layers.Dense(1)(x))
    features = {
        "words": np.array([["b"], ["a"], ["?"]]),
        "sizes": np.array([[1.0], [10.0], [20.0]], np.float32),
    }
    [(_, found)] = looked_up(model, dataset(features, 3))
    assert found["word"] == [2, 1, 0]
    assert found["size"] == [0, 1, 2]
    assert (
        found["hash"]
        == layers.Hashing(1000)(features["words"])[:, 0].numpy().tolist()
    )


def test_follows_the_mode_of_the_model():
    class Mode(keras.Model):
        def __init__(self):
            super().__init__()
            self.table = Embedding(2, name="t", combiner="sum")

        def call(self, ids, training=False):
            return self.table(ids + 50) if training else self.table(ids)

    batches = dataset(IDS, 5)
    [(_, found)] = looked_up(Mode(), batches, training=True)
    assert found["t"] == [*(IDS + 50).ravel()]
    [(_, found)] = looked_up(Mode(), batches, training=False)
    assert found["t"] == [*IDS.ravel()]


def test_a_table_that_is_not_called_has_no_ids():
    class Idle(keras.Model):
        def __init__(self):
            super().__init__()
            self.table = Embedding(2, name="t")
            self.idle = Embedding(2, name="idle")

        def call(self, ids):
            return self.table(ids)

    [(_, found)] = looked_up(Idle(), dataset(IDS, 5))
    assert found["idle"] == []


def test_a_model_without_tables_passes_through():
    model = keras.Sequential([layers.Dense(1)])
    batches = dataset((LABELS, LABELS), 5)
    [(batch, found)] = looked_up(model, batches)
    assert found == {}
    np.testing.assert_array_equal(batch[0], LABELS)


def test_order_holds_with_many_threads():
    ids = np.arange(4000).reshape(400, 10)
    found = list(looked_up(one_table(), dataset(ids, 10)))
    assert [i for _, f in found for i in f["t"]] == list(range(4000))


def test_a_sequence_of_any_length_needs_one_trace():
    batches = tf.data.Dataset.from_generator(
        lambda: (np.ones((n, n), np.int64) for n in (1, 5, 3)),
        output_signature=tf.TensorSpec((None, None), tf.int64),
    )
    model = keras.Sequential([Embedding(2, name="t", combiner="sum")])
    found = [ids["t"] for _, ids in looked_up(model, batches)]
    assert [len(ids) for ids in found] == [1, 25, 9]


class OnItsOwnRows(keras.Model):
    def __init__(self):
        super().__init__()
        self.first = Embedding(2, name="first")
        self.second = Embedding(2, name="second")

    def call(self, ids):
        rows = self.first(ids)
        return self.second(tf.cast(rows[..., 0] > 0, tf.int64))


class InALoop(keras.Model):
    def __init__(self):
        super().__init__()
        self.table = Embedding(2, name="looped", combiner="sum")

    def call(self, ids):
        return tf.map_fn(
            self.table, ids, fn_output_signature=tf.TensorSpec([2])
        )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (OnItsOwnRows, "depend on an embedding's output.*layer 'second'"),
        (InALoop, "outside of loops.*layer 'looped'"),
    ],
)
def test_refuses_ids_that_are_not_known_before_the_step(model, message):
    batches = dataset(IDS, 5)
    with pytest.raises(ConfigError, match=message):
        Lookup(prepared(model(), batches), batches.element_spec)


def test_refuses_batches_of_another_kind():
    batches = dataset(IDS, 5)
    lookup = Lookup(prepared(one_table(), batches), batches.element_spec)
    for other in (IDS[:, :2], IDS.astype(np.int32), (IDS, LABELS)):
        with pytest.raises(ConfigError, match=r"gave batches of .* before"):
            lookup.map(dataset(other, 5))
    with pytest.raises(ConfigError, match="Received: 4 parts"):
        Lookup(
            prepared(one_table(), batches),
            dataset((IDS, IDS, IDS, IDS)).element_spec,
        )


def test_refuses_records_that_are_not_batched():
    records = tf.data.Dataset.from_tensor_slices((IDS, LABELS[:, 0]))
    with pytest.raises(ConfigError, match="dataset_fn gives batches"):
        Lookup(prepared(one_table(), dataset(IDS)), records.element_spec)
