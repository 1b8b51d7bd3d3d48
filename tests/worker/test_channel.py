import threading

import pytest

from elastic_keras.worker.channel import Channel, Closed

PATIENCE = 30.0


def test_items_come_out_in_order():
    channel = Channel()
    for item in (3, 1, "two"):
        channel.put(item)
    assert channel.count(int) == 2
    assert [channel.get() for _ in range(3)] == [3, 1, "two"]
    assert channel.count(int) == 0


def test_put_waits_for_room():
    channel = Channel(1)
    channel.put("first")
    entered = threading.Event()
    done = threading.Event()

    def put():
        entered.set()
        channel.put("second")
        done.set()

    threading.Thread(target=put, daemon=True).start()
    assert entered.wait(PATIENCE)
    assert channel.count(str) == 1
    assert not done.is_set()
    assert channel.get() == "first"
    assert channel.get() == "second"
    assert done.wait(PATIENCE)


@pytest.mark.parametrize("side", ["get", "put"])
def test_close_ends_whoever_waits(side):
    channel = Channel(1)
    if side == "put":
        channel.put(0)
    ended = threading.Event()

    def wait():
        with pytest.raises(Closed):
            channel.put(1) if side == "put" else channel.get()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    channel.close()
    assert ended.wait(PATIENCE)
    assert channel.closed


def test_what_is_left_at_close_is_dropped():
    channel = Channel()
    channel.put(1)
    channel.close()
    with pytest.raises(Closed):
        channel.get()
