import threading

from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker.reservations import Leave, Reservations

PATIENCE = 30.0


class _Master:
    """Answers in the order given and keeps what it was asked."""

    def __init__(self, *replies):
        self._replies = list(replies)
        self.asked = []

    def reserve(self, *, done=0, returned=0, want=0):
        self.asked.append((done, returned, want))
        if not want:
            return master_pb2.ReserveStepsReply()
        return self._replies.pop(0)


def _granted(granted, member=0):
    return master_pb2.ReserveStepsReply(granted=granted, member=member)


def test_granted_steps_are_used_before_more_are_asked_for():
    master = _Master(_granted(2), _granted(1))
    reservations = Reservations(master)
    for _ in range(3):
        assert reservations.acquire(2) == (Leave.STEP, 0)
    assert master.asked == [(0, 0, 2), (0, 0, 2)]


def test_what_landed_is_told_with_the_next_question():
    master = _Master(_granted(2), _granted(1))
    reservations = Reservations(master)
    reservations.acquire(2)
    reservations.settle(done=1)
    assert master.asked == [(0, 0, 2)]
    reservations.acquire(1)
    reservations.acquire(1)
    assert master.asked[1:] == [(1, 0, 1)]


def test_what_lands_with_nothing_left_is_told_at_once():
    master = _Master(_granted(1))
    reservations = Reservations(master)
    reservations.acquire(1)
    reservations.settle(done=1)
    assert master.asked == [(0, 0, 1), (1, 0, 0)]


def test_what_lands_while_a_question_waits_is_told_at_once():
    asked = threading.Event()
    told = threading.Event()

    class Waiting:
        def reserve(self, *, done=0, returned=0, want=0):
            if want:
                asked.set()
                assert told.wait(PATIENCE)
                return _granted(1)
            assert done == 1
            told.set()
            return _granted(0)

    reservations = Reservations(Waiting())
    answers = []
    thread = threading.Thread(
        target=lambda: answers.append(reservations.acquire(1)), daemon=True
    )
    thread.start()
    assert asked.wait(PATIENCE)
    reservations.settle(done=1)
    thread.join(PATIENCE)
    assert answers == [(Leave.STEP, 0)]


def test_an_empty_answer_is_asked_again():
    master = _Master(_granted(0), _granted(1))
    assert Reservations(master).acquire(1) == (Leave.STEP, 0)


def test_a_new_member_number_comes_with_its_first_step():
    master = _Master(_granted(2, member=7))
    reservations = Reservations(master)
    assert reservations.acquire(2) == (Leave.STEP, 7)
    assert reservations.acquire(2) == (Leave.STEP, 0)


def test_evaluation_and_the_end_are_passed_on():
    master = _Master(
        master_pb2.ReserveStepsReply(evaluate=True),
        master_pb2.ReserveStepsReply(stop=True),
    )
    reservations = Reservations(master)
    assert reservations.acquire(1) == (Leave.EVALUATE, 0)
    assert reservations.acquire(1) == (Leave.STOP, 0)


def test_unused_steps_are_given_back():
    master = _Master(_granted(3))
    reservations = Reservations(master)
    reservations.acquire(3)
    reservations.give_back()
    assert master.asked[-1] == (0, 2, 0)
    reservations.give_back()
    assert len(master.asked) == 2


def test_flush_tells_what_is_settled_though_steps_are_left():
    master = _Master(_granted(2))
    reservations = Reservations(master)
    reservations.acquire(2)
    reservations.settle(done=1)
    reservations.flush()
    assert master.asked[-1] == (1, 0, 0)
