from elastic_keras.master import staleness
from elastic_keras.wire.proto import ps_pb2


def test_shards_are_added_up_and_nothing_trails():
    total = staleness.total(
        [
            ps_pb2.ShardStatus(
                staleness_counts=[1, 0, 2, 0, 0],
                staleness_sum=4,
                staleness_max=2,
            ),
            ps_pb2.ShardStatus(
                staleness_counts=[1, 1, 0, 0, 0],
                staleness_sum=1,
                staleness_max=1,
            ),
        ]
    )
    assert total.histogram == (2, 1, 2)
    assert (total.max, total.mean) == (2, 1.0)


def test_no_push_yet():
    status = ps_pb2.ShardStatus(staleness_counts=[0, 0])
    assert staleness.total([status]) == staleness.Staleness()
