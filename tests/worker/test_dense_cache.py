import numpy as np

from elastic_keras.wire import tensors
from elastic_keras.wire.proto import ps_pb2
from elastic_keras.worker.dense_cache import DenseCache
from elastic_keras.worker.shards import Reply
from tests.worker import stand_ins

MODEL = stand_ins.signature(dense=((4,), (3,)))


def _reply(version, values=None):
    reply = ps_pb2.PullReply(version=version, dense_version=version)
    if values is not None:
        tensors.encode_into(reply.dense, np.asarray(values, np.float32))
    return Reply(reply)


def test_an_older_answer_does_not_hide_a_newer_one():
    cache = DenseCache(MODEL, 1)
    early = cache.held()
    newer = cache.join([_reply(5, range(7))], early)
    older = cache.join([_reply(3, [9] * 7)], early)
    assert cache.held()[0][0] == 5
    assert (newer.versions, older.versions) == ((5,), (3,))
    # Each answer is joined for itself.
    np.testing.assert_array_equal(older.dense, [9] * 7)


def test_what_a_reply_leaves_out_is_what_its_request_held():
    cache = DenseCache(MODEL, 1)
    cache.join([_reply(1, [1] * 7)], cache.held())
    held = cache.held()
    # While this request is under way another brings version 2.
    cache.join([_reply(2, [2] * 7)], cache.held())
    joined = cache.join([_reply(1)], held)
    assert joined.versions == (1,)
    np.testing.assert_array_equal(joined.dense, [1] * 7)


def test_parts_of_several_shards_come_in_signature_order():
    cache = DenseCache(MODEL, 2)
    flat = np.arange(7, dtype=np.float32)
    replies = [_reply(1, part) for part in cache.dense.split(flat)]
    joined = cache.join(replies, cache.held())
    np.testing.assert_array_equal(joined.dense, flat)
    assert joined.versions == (1, 1)


def test_one_shards_change_makes_a_new_vector():
    cache = DenseCache(MODEL, 2)
    flat = np.arange(7, dtype=np.float32)
    parts = cache.dense.split(flat)
    cache.join([_reply(1, part) for part in parts], cache.held())
    joined = cache.join(
        [_reply(1), _reply(2, np.zeros_like(parts[1]))], cache.held()
    )
    assert joined.versions == (1, 2)
    expected = cache.dense.join([parts[0], np.zeros_like(parts[1])])
    np.testing.assert_array_equal(joined.dense, expected)
