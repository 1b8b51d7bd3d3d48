"""Bad networks between a worker and a shard: no push is lost or doubled."""

import contextlib
import random
import threading

import numpy as np
import pytest

from elastic_keras.config import WireOptions
from elastic_keras.wire.proto import ps_pb2
from elastic_keras.worker.client import PsClient
from elastic_keras.worker.grouping import group
from elastic_keras.worker.values import Push, StepGradients
from tests.chaos.fingerprint import digest
from tests.chaos.proxy import Fault, Proxy
from tests.ps.served import MODEL

pytestmark = pytest.mark.chaos

BATCHES = 25
IDS = [group(np.array(ids), 1)[0] for ids in ([5, 9, 5], [5, 2**40])]


def push(batch: int, version: int) -> Push:
    random_values = np.random.default_rng(batch)
    shapes = [
        (len(ids.ids), spec.dim)
        for ids, spec in zip(IDS, MODEL.tables, strict=True)
    ]
    rows = [random_values.normal(size=s).astype(np.float32) for s in shapes]
    return Push(
        key=(0, 1, batch),
        examples=8,
        member=1,
        step=batch,
        versions=(version,),
        ids=IDS,
        gradients=StepGradients(
            rows,
            random_values.normal(size=4).astype(np.float32),
            np.full(3, 0.5, np.float32),
        ),
    )


class Link:
    """A worker's client, the proxy in its way, and the shard."""

    def __init__(self, server, folder, *, delay=0.0, **wire) -> None:
        self.server = server
        front = f"{folder}/front.sock"
        back = server.address.removeprefix("unix:")
        self.proxy = Proxy(front, back, delay)
        options = {"rpc_timeout_secs": 1.0, **wire}
        self.client = PsClient(
            [f"unix:{front}"], MODEL, job_id="j", wire=WireOptions(**options)
        )
        self.client.join()

    def train(self, batches=BATCHES, between=lambda batch: None) -> list:
        """Pulls and pushes batch after batch; returns the answers."""
        replies = []
        for batch in range(batches):
            between(batch)
            pulled = self.client.pull(
                IDS, mode=ps_pb2.TRAIN, member=1, step=batch
            )
            between(batch)
            (reply,) = self.client.push(push(batch, pulled.versions[0]))
            replies.append(reply.status)
        return replies

    def close(self) -> None:
        self.client.close()
        self.proxy.close()


@pytest.fixture
def link(serve, tmp_path_factory):
    with contextlib.ExitStack() as stack:

        def make(**options) -> Link:
            server = serve(staleness_policy="unbounded").prepare()
            folder = tmp_path_factory.mktemp("p")
            made = Link(server, folder, **options)
            stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def undisturbed(link):
    """The state after the same batches in peace."""
    peaceful = link()
    assert peaceful.train() == [ps_pb2.PushReply.APPLIED] * BATCHES
    return state(peaceful)


def state(link: Link):
    report = link.server.shard.report()
    tables = [table.export() for table in link.server.shard._parameters.tables]
    return (
        report.version,
        report.batches,
        report.examples_by_epoch,
        [(ids.tolist(), rows.tolist()) for ids, rows, _ in tables],
        link.server.shard._parameters.dense.values.tolist(),
        link.server.shard._parameters.dense.states.tolist(),
    )


class Weather:
    """Lets a fault come before every so many calls, and go by itself."""

    def __init__(self, proxy, fault, every) -> None:
        self._proxy, self._fault, self._every = proxy, fault, every
        self._calls = 0
        self._clearing: threading.Timer | None = None
        self.times = 0

    def __call__(self, batch: int) -> None:
        self._calls += 1
        if self._calls % self._every:
            return
        self.wait()
        self.times += 1
        self._proxy.set(self._fault)
        self._clearing = threading.Timer(0.1, self._proxy.set, [Fault.NONE])
        self._clearing.start()

    def wait(self) -> None:
        if self._clearing is not None:
            self._clearing.join()


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize(
    "fault", [Fault.ANSWERS_LOST, Fault.SILENT, Fault.AWAY]
)
def test_a_network_that_comes_and_goes(link, undisturbed, fault, shared_memory):
    disturbed = link(shared_memory=shared_memory)
    # Odd: pulls and pushes in turn.
    weather = Weather(disturbed.proxy, fault, every=7)
    disturbed.train(between=weather)
    weather.wait()
    assert weather.times == 2 * BATCHES // 7
    assert state(disturbed) == undisturbed
    again = disturbed.server.status().duplicate_pushes
    assert (again > 0) == (fault is Fault.ANSWERS_LOST)


def test_an_answer_that_is_lost_is_asked_for_again(link, undisturbed):
    disturbed = link(rpc_timeout_secs=0.3)
    heard = threading.Timer(1.0, disturbed.proxy.set, [Fault.NONE])

    def before(batch):
        if batch == 10 and not heard.ident:
            disturbed.proxy.set(Fault.ANSWERS_LOST)
            heard.start()

    disturbed.train(between=before)
    assert state(disturbed) == undisturbed
    heard.join()


def test_connections_that_are_cut_before_every_call(link, undisturbed):
    disturbed = link()
    disturbed.train(between=lambda batch: disturbed.proxy.cut())
    assert state(disturbed) == undisturbed


def test_a_long_way(link, undisturbed):
    far = link(delay=0.005)
    far.train()
    assert state(far) == undisturbed
    assert far.proxy.forwarded > 0


def test_pushes_that_come_twice_and_in_another_order(link):
    disturbed = link()
    client = disturbed.client
    version = client.pull(IDS).versions[0]
    order = [batch for batch in range(BATCHES) for _ in range(2)]
    random.Random(0).shuffle(order)
    answers = {}
    threads = [
        threading.Thread(
            target=lambda b=batch, n=number: answers.__setitem__(
                n, client.push(push(b, version))[0].status
            )
        )
        for number, batch in enumerate(order)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = [list(answers.values()).count(s) for s in (1, 2)]
    assert counts == [BATCHES, BATCHES]
    report = disturbed.server.shard.report()
    assert report.version == report.batches == BATCHES
    assert report.examples_by_epoch == {0: 8 * BATCHES}


@pytest.mark.slow
def test_a_shard_that_is_away_for_half_a_minute(link, undisturbed):
    disturbed = link()
    back = threading.Timer(30.0, disturbed.proxy.set, [Fault.NONE])

    def before(batch):
        if batch == 10 and not back.ident:
            disturbed.proxy.set(Fault.AWAY)
            back.start()

    disturbed.train(between=before)
    assert state(disturbed) == undisturbed
    back.join()


def test_the_fingerprint_tells_states_apart(link):
    disturbed = link()
    before = digest(disturbed.server.shard)
    disturbed.train(batches=1)
    assert digest(disturbed.server.shard) != before
