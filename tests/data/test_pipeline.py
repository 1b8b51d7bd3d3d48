"""Batches from whatever a dataset_fn returns, always the same ones."""

import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.data.pipeline import BatchPipeline
from elastic_keras.data.reader import Metadata
from elastic_keras.data.records import record_dataset

_LINES = [f"{n},{n % 3}" for n in range(20)]


def _raw(lines=None) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(tf.constant(lines or _LINES))


def _pair(line):
    columns = tf.strings.split(line, ",")
    numbers = tf.strings.to_number(columns)
    return {"x": numbers[:1]}, numbers[1]


def _pipeline(dataset_fn, mode="training", size=8, **kwargs) -> BatchPipeline:
    return BatchPipeline(dataset_fn, mode, Metadata(["a"]), size, **kwargs)


def _numbers(dataset) -> list[list[int]]:
    return [x["x"].numpy()[:, 0].astype(int).tolist() for x, _, _ in dataset]


def test_single_examples_are_batched():
    batches = _pipeline(lambda raw, mode, metadata: raw.map(_pair))(_raw())
    assert _numbers(batches) == [
        list(range(8)),
        list(range(8, 16)),
        list(range(16, 20)),
    ]


@pytest.mark.parametrize(
    "batch",
    [
        lambda raw: raw.map(_pair).batch(5),
        lambda raw: raw.map(_pair).batch(5).prefetch(1),
        lambda raw: (
            raw.map(_pair)
            .batch(5, drop_remainder=True)
            .map(lambda x, y: (x, y))
        ),
        lambda raw: raw.map(_pair).padded_batch(5),
        lambda raw: raw.window(5).flat_map(
            lambda window: window.map(_pair).batch(5)
        ),
        lambda raw: raw.map(_pair).batch(2).rebatch(5),
    ],
)
def test_batches_are_left_alone(batch):
    batches = _pipeline(lambda raw, mode, metadata: batch(raw))(_raw())
    assert [len(b) for b in _numbers(batches)] == [5, 5, 5, 5]


def test_unbatched_batches_are_batched_again():
    def dataset_fn(raw, mode, metadata):
        return raw.map(_pair).batch(5).unbatch()

    batches = _pipeline(dataset_fn)(_raw())
    assert [len(b) for b in _numbers(batches)] == [8, 8, 4]


def test_vectors_of_one_width_are_no_batches():
    def dataset_fn(raw, mode, metadata):
        return raw.map(lambda line: (tf.ones([5]), tf.ones([5])))

    features, labels, _ = next(iter(_pipeline(dataset_fn)(_raw())))
    assert features.shape == labels.shape == (8, 5)


def test_varying_lengths_are_padded_and_ragged_ones_stay():
    def varying(raw, mode, metadata):
        return raw.map(lambda line: (tf.strings.bytes_split(line), 1.0))

    features, _, _ = next(iter(_pipeline(varying, size=20)(_raw())))
    assert features.shape == (20, 4)

    def ragged(raw, mode, metadata):
        return raw.batch(6).map(
            lambda lines: (tf.strings.bytes_split(lines), tf.ones([6]))
        )

    features, _, _ = next(iter(_pipeline(ragged)(_raw())))
    assert features.row_lengths().numpy().tolist() == [3] * 6


def test_metadata_and_mode_reach_dataset_fn():
    seen = []

    def dataset_fn(raw, mode, metadata):
        seen.append((mode, metadata.column_names, metadata.minibatch_size))
        return raw.batch(metadata.minibatch_size).map(lambda x: (x, x))

    next(iter(_pipeline(dataset_fn, mode="evaluation")(_raw())))
    assert seen == [("evaluation", ["a"], 8)]


def test_prediction_needs_no_labels_and_drops_them():
    for dataset_fn in (
        lambda raw, mode, metadata: raw.map(lambda x: _pair(x)[0]),
        lambda raw, mode, metadata: raw.map(_pair),
    ):
        batches = _pipeline(dataset_fn, mode="prediction")(_raw())
        features, labels, weights = next(iter(batches))
        assert features["x"].shape == (8, 1)
        assert labels is None
        assert weights is None


def test_sample_weights_come_third():
    def dataset_fn(raw, mode, metadata):
        return raw.map(lambda x: (*_pair(x), 0.5))

    _, _, weights = next(iter(_pipeline(dataset_fn)(_raw())))
    assert weights.numpy().tolist() == [0.5] * 8


def test_dataset_fn_is_traced_once():
    calls = []

    def dataset_fn(raw, mode, metadata):
        calls.append(1)
        return raw.map(_pair)

    pipeline = _pipeline(dataset_fn)
    for start in (0, 8, 12):
        batches = pipeline(_raw(_LINES[start:]))
        assert _numbers(batches)[0][0] == start
    assert len(calls) == 1


def _shuffled(raw, mode, metadata):
    return raw.shuffle(20).map(_pair).batch(5)


def _shuffled_eagerly(raw, mode, metadata):
    count = int(raw.reduce(0, lambda n, _: n + 1).numpy())
    return raw.shuffle(count).map(_pair).batch(5)


@pytest.mark.parametrize("dataset_fn", [_shuffled, _shuffled_eagerly])
def test_a_shuffle_without_seed_is_a_function_of_the_task(dataset_fn):
    one, two = _pipeline(dataset_fn, seed=3), _pipeline(dataset_fn, seed=3)
    first = _numbers(one(_raw()))
    assert first != _numbers(_pipeline(_plain)(_raw()))
    # Another task in between, another worker: no difference.
    one(_raw(_LINES[:4]))
    assert _numbers(one(_raw())) == first
    tf.random.set_seed(99)
    assert _numbers(two(_raw())) == first
    assert _numbers(_pipeline(dataset_fn, seed=4)(_raw())) != first


def _plain(raw, mode, metadata):
    return raw.map(_pair).batch(5)


def test_functions_in_the_dataset_go_through_autograph():
    def parse(line):
        features, label = _pair(line)
        if label > 1.0:
            label = tf.constant(-1.0)
        return features, label

    def dataset_fn(raw, mode, metadata):
        return raw.map(parse)

    pipeline = _pipeline(dataset_fn)
    _, labels, _ = next(iter(pipeline(_raw())))
    assert labels.numpy().tolist() == [0, 1, -1, 0, 1, -1, 0, 1]
    assert pipeline.traced


def test_lookup_tables_made_in_dataset_fn_live_on():
    def dataset_fn(raw, mode, metadata):
        keys = tf.constant([line.encode() for line in _LINES])
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(keys, tf.range(20) * 10), -1
        )
        return raw.map(lambda x: ({"x": [table.lookup(x)]}, 0))

    pipeline = _pipeline(dataset_fn)
    for _ in range(2):
        batches = pipeline(_raw(_LINES[2:4]))
        assert _numbers(batches) == [[20, 30]]


@pytest.mark.parametrize(
    ("dataset_fn", "words"),
    [
        (lambda raw, mode, metadata: None, "must return a tf.data.Dataset"),
        (lambda raw, mode, metadata: raw, "must give"),
        (lambda raw, mode, metadata: raw.map(_pair).repeat(), "without end"),
        (
            lambda raw, mode, metadata: raw.map(lambda x: (x, x, x, x)),
            "a tuple of 4",
        ),
        (
            lambda raw, mode, metadata: raw.map(
                _pair, num_parallel_calls=2, deterministic=False
            ),
            "deterministic=False",
        ),
        (
            lambda raw, mode, metadata: raw.map(_pair).cache("kept").batch(4),
            "CacheDataset in 'kept'",
        ),
        (
            lambda raw, mode, metadata: raw.map(_pair).snapshot("kept"),
            "leave cache.filename. and snapshot.. out",
        ),
    ],
)
def test_wrong_use(dataset_fn, words):
    with pytest.raises(ConfigError, match=words):
        _pipeline(dataset_fn)(_raw())


def test_a_cache_in_memory_holds_one_task():
    pipeline = _pipeline(lambda raw, *_: raw.map(_pair).cache())
    for lines in (_LINES[:3], _LINES[5:9]):
        batches = _numbers(pipeline(_raw(lines)))
        assert batches == [[int(line.split(",")[0]) for line in lines]]


def test_a_generator_reads_each_tasks_records():
    def dataset_fn(raw, mode, metadata):
        def read():
            for line in raw.as_numpy_iterator():
                yield {"x": [int(line.split(b",")[0])]}, 0

        spec = (
            {"x": tf.TensorSpec([1], tf.int32)},
            tf.TensorSpec([], tf.int32),
        )
        return tf.data.Dataset.from_generator(read, output_signature=spec)

    pipeline = _pipeline(dataset_fn)
    for lines in (_LINES[:3], _LINES[5:9]):
        batches = _numbers(pipeline(_raw(lines)))
        assert batches == [[int(line.split(",")[0]) for line in lines]]
    assert not pipeline.traced


def test_a_users_exception_passes_through():
    def dataset_fn(raw, mode, metadata):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        _pipeline(dataset_fn)(_raw())


def test_then_is_applied_to_batches():
    def then(batches):
        return batches.map(lambda x, y, w: tf.reduce_sum(x["x"]))

    sums = _pipeline(_plain, then=then)(_raw())
    assert [float(s) for s in sums] == [10.0, 35.0, 60.0, 85.0]


def _sampled(raw, mode, metadata):
    kept = raw.filter(lambda line: tf.random.uniform([]) < 0.5)
    return kept.map(_pair).batch(5)


@pytest.mark.parametrize("dataset_fn", [_shuffled, _shuffled_eagerly, _sampled])
def test_one_iterator_serves_task_after_task(dataset_fn):
    pipeline = _pipeline(dataset_fn, seed=3)
    expected = _numbers(pipeline(_raw()))
    for _ in range(3):
        assert _numbers(pipeline.batches(_raw())) == expected
        between = _numbers(pipeline.batches(_raw(_LINES[:3])))
        assert {x for batch in between for x in batch} <= {0, 1, 2}


def test_a_task_that_is_given_up_leaves_nothing_behind():
    pipeline = _pipeline(_plain)
    given_up = pipeline.batches(_raw())
    assert next(given_up)[0]["x"].shape == (5, 1)
    given_up.close()
    second = pipeline.batches(_raw(_LINES[10:]))
    next(second)
    # Another task while the second is being read.
    assert _numbers(pipeline.batches(_raw(_LINES[:2]))) == [[0, 1]]
    assert _numbers(second) == [[15, 16, 17, 18, 19]]
    assert _numbers(pipeline.batches(_raw(_LINES[:2]))) == [[0, 1]]


def test_an_error_within_a_task_leaves_the_next_alone():
    pipeline = _pipeline(_plain)
    with pytest.raises(tf.errors.InvalidArgumentError, match="StringToNumber"):
        _numbers(pipeline.batches(_raw(["1,2", "x,1"])))
    assert _numbers(pipeline.batches(_raw(["7,2"]))) == [[7]]


def _sampled(parallel):
    def dataset_fn(dataset, mode, metadata):
        def sample(text):
            return text, tf.random.uniform([])

        pairs = dataset.map(sample, num_parallel_calls=parallel)
        return pairs.batch(2)

    return dataset_fn


def test_draws_in_parallel_calls_are_refused():
    pipeline = BatchPipeline(_sampled(4), "training", Metadata(), 2)
    with pytest.raises(ConfigError, match="stateless"):
        pipeline(tf.data.Dataset.from_tensor_slices(["a", "b", "c"]))


def test_draws_in_order_are_the_same_each_time():
    pipeline = BatchPipeline(_sampled(None), "training", Metadata(), 2)
    raw = tf.data.Dataset.from_tensor_slices(["a", "b", "c"])
    first, again = (
        [labels.numpy().tolist() for _, labels, _ in pipeline.batches(raw)]
        for _ in range(2)
    )
    assert first == again


def test_stateless_draws_in_parallel_calls_are_fine():
    def dataset_fn(dataset, mode, metadata):
        def sample(index, text):
            seed = tf.stack([index, 1])
            return text, tf.random.stateless_uniform([], seed)

        return dataset.enumerate().map(sample, num_parallel_calls=4).batch(2)

    pipeline = BatchPipeline(dataset_fn, "training", Metadata(), 2)
    assert pipeline(tf.data.Dataset.from_tensor_slices(["a"])) is not None


@pytest.mark.parametrize(
    "dataset_fn",
    [
        lambda raw, mode, metadata: raw.batch(6).map(lambda x: (x, x)),
        lambda raw, mode, metadata: raw.batch(6, drop_remainder=True).map(
            lambda x: (x, x)
        ),
        lambda raw, mode, metadata: raw.skip(2).map(lambda x: (x, x)).batch(6),
        lambda raw, mode, metadata: raw.map(lambda x: (x, x)),
        lambda raw, mode, metadata: (
            raw.shuffle(9).batch(6).map(lambda x: (x, x))
        ),
    ],
)
def test_a_readers_dataset_is_a_dataset_like_any_other(dataset_fn):
    def lines(batches):
        return [x.numpy().tolist() for x, _, _ in batches]

    plain, fast = _pipeline(dataset_fn), _pipeline(dataset_fn)
    for count in (20, 7):
        records = record_dataset(_LINES[:count])
        assert list(records.as_numpy_iterator()) == [
            line.encode() for line in _LINES[:count]
        ]
        expected = lines(plain(_raw(_LINES[:count])))
        assert lines(fast(records)) == expected
        assert lines(fast.batches(records)) == expected
    assert fast.traced
    assert lines(fast(record_dataset([]))) == []
