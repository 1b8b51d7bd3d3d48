from elastic_keras.master.membership import Membership


def _join(membership, index, now=0.0):
    return membership.join(index, now, has_callbacks=False)[0].number


def test_the_chief_is_the_lowest_index_alive():
    membership = Membership(10.0)
    assert membership.chief is None
    second = _join(membership, 1)
    assert membership.chief == second
    first = _join(membership, 0)
    assert membership.chief == first
    membership.remove(first)
    assert membership.chief == second


def test_a_worker_that_joins_again_replaces_its_former_self():
    membership = Membership(10.0)
    old = _join(membership, 0)
    membership.activate(old)
    worker, former = membership.join(0, 1.0, has_callbacks=True)
    assert former.number == old
    assert worker.number != old
    assert membership.alive == 1
    assert membership.members == ()
    assert membership.get(old) is None
    assert membership.restarts == 0


def test_another_process_of_an_index_is_a_restart():
    membership = Membership(10.0)
    for index, pid in ((0, 40), (1, 41), (0, 42), (0, 42), (0, 43)):
        worker, _ = membership.join(index, 0.0, has_callbacks=False, pid=pid)
    membership.remove(worker.number)
    membership.join(0, 0.0, has_callbacks=False, pid=43)
    assert membership.restarts == 2


def test_members_get_fresh_numbers_and_each_change_counts():
    membership = Membership(10.0)
    a, b = _join(membership, 0), _join(membership, 1)
    assert membership.number == 0
    first = membership.activate(a)
    assert membership.number == 1
    assert membership.activate(a) == first
    assert membership.number == 1
    second = membership.activate(b)
    assert membership.members == (first, second)
    assert membership.deactivate(a)
    assert not membership.deactivate(a)
    assert membership.members == (second,)
    third = membership.activate(a)
    assert third > second > first > 0
    assert membership.number == 4


def test_silence_is_noticed():
    membership = Membership(10.0)
    a, b = _join(membership, 0), _join(membership, 1)
    membership.seen(b, 6.0)
    assert membership.expired(10.0) == []
    assert [w.number for w in membership.expired(10.5)] == [a]
    assert [w.number for w in membership.expired(17.0)] == [a, b]
    # Whoever is gone already is not brought back by a late heartbeat.
    membership.remove(a)
    membership.seen(a, 20.0)
    assert membership.get(a) is None
