import numpy as np
import pytest

from elastic_keras.master.states import MetricSum
from elastic_keras.wire import tensors
from elastic_keras.wire.errors import WireError
from elastic_keras.wire.proto import master_pb2


def _states(**metrics):
    states = master_pb2.MetricStates()
    for name, arrays in metrics.items():
        states.metrics[name].tensors.extend(map(tensors.encode, arrays))
    return states


def _decoded(states, name):
    return [
        tensors.decode(tensor, name=name)
        for tensor in states.metrics[name].tensors
    ]


def test_floats_are_added_in_float64_and_integers_as_integers():
    total = MetricSum()
    assert total.empty
    # In float32 the ones would vanish beside 2**24.
    total.add(_states(m=[np.float32([1 << 24, 0]), np.int32(1 << 30)]))
    for _ in range(3):
        total.add(_states(m=[np.float32([1, 0.5]), np.int32(1 << 30)]))
    assert not total.empty
    floats, integers = _decoded(total.to_proto(), "m")
    assert floats.dtype == np.float64
    assert floats.tolist() == [(1 << 24) + 3, 1.5]
    assert integers.dtype == np.int64
    assert integers == 4 << 30


def test_the_order_of_tasks_does_not_show():
    rng = np.random.default_rng(0)
    parts = [rng.random(4).astype(np.float32) for _ in range(100)]

    def merged(order):
        total = MetricSum()
        for i in order:
            total.add(_states(loss=[parts[i]]))
        return _decoded(total.to_proto(), "loss")[0].astype(np.float32)

    expected = merged(range(100))
    for _ in range(5):
        assert np.array_equal(merged(rng.permutation(100)), expected)


@pytest.mark.parametrize(
    "other",
    [
        {"loss": [np.zeros(3, np.float32)]},
        {"loss": [np.zeros(2, np.float32)] * 2},
        {"auc": [np.zeros(2, np.float32)]},
    ],
)
def test_states_that_do_not_fit_are_refused(other):
    total = MetricSum()
    total.add(_states(loss=[np.ones(2, np.float32)]))
    with pytest.raises(WireError, match="states"):
        total.add(_states(**other))
    assert _decoded(total.to_proto(), "loss")[0].tolist() == [1, 1]


def test_a_task_without_states_adds_nothing():
    total = MetricSum()
    total.add(_states(loss=[np.ones(2, np.float32)]))
    total.add(_states())
    assert _decoded(total.to_proto(), "loss")[0].tolist() == [1, 1]
