import threading

import pytest

from elastic_keras.worker.channel import Closed
from elastic_keras.worker.flow import Flow

PATIENCE = 30.0


def _in_thread(work):
    """Starts work; returns an event that is set when it is done."""
    done = threading.Event()

    def run():
        work()
        done.set()

    threading.Thread(target=run, daemon=True).start()
    return done


def test_urgent_items_come_first():
    flow = Flow(1)
    flow.put("a")
    flow.put("b")
    flow.put_urgent("now")
    assert [flow.get() for _ in range(3)] == ["now", "a", "b"]


def test_the_window_bounds_steps_in_flight():
    flow = Flow(2)
    flow.enter()
    flow.enter()
    third = _in_thread(flow.enter)
    assert not third.wait(0.05)
    flow.leave()
    assert third.wait(PATIENCE)


def test_a_wider_window_lets_waiting_steps_in():
    flow = Flow(1)
    flow.enter()
    second = _in_thread(flow.enter)
    assert not second.wait(0.05)
    flow.window = 2
    assert second.wait(PATIENCE)


def test_draining_hands_out_urgent_items_until_nothing_is_in_flight():
    flow = Flow(2)
    flow.enter()
    flow.put("ordinary")
    flow.put_urgent("refused")
    assert flow.get_urgent() == "refused"
    got = []
    drained = _in_thread(lambda: got.append(flow.get_urgent()))
    assert not drained.wait(0.05)
    flow.leave()
    assert drained.wait(PATIENCE)
    assert got == [None]
    assert flow.get() == "ordinary"


def test_the_error_of_another_thread_is_raised_once_by_the_main_one():
    flow = Flow(1)
    flow.put("never seen")
    flow.fail(KeyError("first"))
    flow.fail(KeyError("second"))
    with pytest.raises(KeyError, match="first"):
        flow.get()
    with pytest.raises(Closed):
        flow.get()


@pytest.mark.parametrize("call", ["enter", "get", "get_urgent"])
def test_close_ends_whoever_waits(call):
    flow = Flow(1)
    flow.enter()
    ended = []

    def wait():
        with pytest.raises(Closed):
            getattr(flow, call)()
        ended.append(call)

    waiting = _in_thread(wait)
    flow.close()
    assert waiting.wait(PATIENCE)
    assert ended == [call]
