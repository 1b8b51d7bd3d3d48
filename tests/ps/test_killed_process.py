"""A shard's process that is killed while it is pushed to, or cut."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest

from elastic_keras.config import (
    DataOptions,
    JobConfig,
    SnapshotOptions,
    StalenessOptions,
)
from elastic_keras.ps.journal import segments
from elastic_keras.ps.replay import Repeater
from elastic_keras.ps.shard import Shard
from elastic_keras.signature import (
    InitializerSpec,
    ModelSignature,
    OptimizerSpec,
    TableSpec,
)
from elastic_keras.snapshots.folder import SnapshotFolder
from elastic_keras.snapshots.manifest import Manifest, ShardEntry
from elastic_keras.snapshots.snapshot import Snapshot
from elastic_keras.wire import rpc, tensors
from elastic_keras.wire.proto import ps_pb2, tensor_pb2
from tests.ps.journaled import state

pytestmark = pytest.mark.end_to_end

_ROOT = pathlib.Path(__file__).parents[2]
_SERVICE = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]
_OPTIONS = StalenessOptions(staleness_policy="unbounded")
# A push of batch b sets row b to 1; a second one would make it 2.
_MODEL = ModelSignature(
    seed=1,
    optimizers=(OptimizerSpec("sgd", 1.0),),
    tables=(TableSpec("seen", 4, InitializerSpec("constant", 0.0)),),
)
_MEMBERS = 2


class _Process:
    """A shard's process and clients to it."""

    def __init__(self, job_dir):
        self.job_dir = pathlib.Path(job_dir)
        self.address = f"unix:{job_dir}/0.sock"
        self.config = dataclasses.replace(
            JobConfig(),
            data=DataOptions(training_data="x"),
            staleness=_OPTIONS,
            snapshots=SnapshotOptions(),
            job_id="j",
            ps_addresses=(self.address,),
        )
        (self.job_dir / "config.json").write_text(self.config.to_json())
        self.log = open(self.job_dir / "log", "ab")  # noqa: SIM115
        self.client = rpc.Client(self.address, _SERVICE)
        self.start()

    def start(self):
        """Starts it and waits until it is ready."""
        self._popen = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "elastic_keras.ps.main",
                f"--job_dir={self.job_dir}",
                "--index=0",
            ],
            cwd=_ROOT,
            env=os.environ,
            stderr=self.log,
        )
        self.status()

    def kill(self):
        """Kills it as the system does."""
        self._popen.kill()
        self._popen.wait()

    def close(self):
        """Ends everything."""
        self.client.close()
        self.kill()
        self.log.close()

    def call(self, method, request, **options):
        """Calls the shard."""
        return self.client.call(method, request, timeout=60, **options)

    def status(self):
        """Returns its state in numbers."""
        return self.call("GetStatus", tensor_pb2.Empty())

    def join(self):
        """Brings it the model."""
        request = ps_pb2.ShardJoinRequest(
            job_id="j",
            protocol_version=rpc.PROTOCOL_VERSION,
            signature=_MODEL.to_json(),
            num_shards=1,
        )
        self.call("Join", request)

    def push(self, batch, **options):
        """Pushes a batch; returns what became of it."""
        request = ps_pb2.PushRequest(
            key=ps_pb2.BatchKey(task=0, batch=batch),
            examples=1,
            member=batch % _MEMBERS,
            step=batch // _MEMBERS,
        )
        rows = request.tables.add(table=0)
        tensors.encode_into(rows.ids, np.array([batch]))
        tensors.encode_into(rows.gradients, -np.ones((1, 4), np.float32))
        return self.call("Push", request, **options).status

    def rows(self, count):
        """Returns the rows of the first batches."""
        request = ps_pb2.PullRequest(mode=ps_pb2.READ)
        table = request.tables.add(table=0)
        tensors.encode_into(table.ids, np.arange(count))
        reply = self.call("Pull", request)
        return tensors.decode(reply.rows[0], name="rows")

    def held(self):
        """Returns the batches that the ledger holds."""
        reply = self.call("GetProgress", ps_pb2.ProgressRequest())
        bits = np.frombuffer(reply.batches, np.uint8)
        found = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
        return set(found.tolist())


@pytest.fixture
def process():
    with tempfile.TemporaryDirectory() as folder:
        process = _Process(folder)
        try:
            yield process
        finally:
            process.close()


class _Pushing:
    """Members that push batch after batch until the shard is gone."""

    def __init__(self, process, begin):
        self._process = process
        self.acknowledged = []
        self.tried = []
        self._next = iter(range(begin, 1 << 20))
        self._lock = threading.Lock()
        self.some = threading.Event()
        self.over = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(_MEMBERS)
        self._futures = [self._pool.submit(self._push) for _ in range(_MEMBERS)]

    def _push(self):
        while not self.over.is_set():
            with self._lock:
                batch = next(self._next)
                self.tried.append(batch)
            try:
                status = self._process.push(
                    batch, retry_for=0, wait_for_ready=False
                )
            except rpc.RpcError as error:
                if error.code != "UNAVAILABLE":
                    raise
                return
            assert status == ps_pb2.PushReply.APPLIED
            self.acknowledged.append(batch)
            if len(self.acknowledged) > 20:
                self.some.set()

    def wait(self):
        """Waits until all have noticed."""
        for future in self._futures:
            future.result(60)
        self._pool.shutdown()


def _kill_while_it_is_pushed_to(process, times):
    process.join()
    begin = 0
    for time in range(times):
        pushing = _Pushing(process, begin)
        assert pushing.some.wait(60)
        # Somewhere in the middle of a push.
        threading.Event().wait(random.random() / 20)
        process.kill()
        pushing.wait()
        process.start()
        status = process.status()
        held = process.held()
        assert set(pushing.acknowledged) <= held
        assert held <= set(pushing.tried) | set(range(begin))
        assert status.version == status.batches == len(held)
        assert (status.restore_loss, status.replayed_pushes) == ("", len(held))
        # Who got no answer tries again.
        for batch in set(pushing.tried) - set(pushing.acknowledged):
            known = batch in held
            assert process.push(batch) == (
                ps_pb2.PushReply.DUPLICATE
                if known
                else ps_pb2.PushReply.APPLIED
            )
        begin = max(pushing.tried) + 1
        rows = process.rows(begin)
        assert rows.tolist() == [[1.0] * 4] * begin, f"in trial {time}"


def test_every_acknowledged_push_outlives_the_process(process):
    _kill_while_it_is_pushed_to(process, 3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_acknowledged_push_outlives_200_processes(process):
    _kill_while_it_is_pushed_to(process, 200)


def test_a_cut_while_it_is_pushed_to_is_of_one_moment(process):
    process.join()
    pushing = _Pushing(process, 0)
    assert pushing.some.wait(60)
    folder = SnapshotFolder(process.job_dir)
    place = folder.begin(0)
    request = ps_pb2.CutRequest(folder=place.name)
    cut = process.call("Cut", request)
    # Its answer was lost, say.
    assert process.call("Cut", request) == cut
    wait = ps_pb2.AwaitSnapshotRequest(folder=place.name)
    reply = process.call("AwaitSnapshot", wait)
    assert process.call("AwaitSnapshot", wait) == reply
    pushing.over.set()
    pushing.wait()
    entry = ShardEntry.from_json(reply.shard)
    assert (entry.version, entry.segment) == (cut.version, cut.segment)
    assert cut.batches == cut.examples == cut.version >= 20
    assert process.status().version > cut.version

    # What the journal tells up to the cut is what was written.
    folder_of = segments.folder_of(process.job_dir, 0)
    before = segments.of_job(folder_of, "j", 1)[: cut.segment]
    told = Shard(0, 1, _OPTIONS)
    assert Repeater(told).repeat(before).loss == ""
    manifest = Manifest(
        "j",
        cut.iterations,
        1,
        _MODEL,
        json.loads(process.config.to_json()),
        (entry,),
    )
    written = Shard(0, 1, _OPTIONS)
    written.restore(
        Snapshot(folder.commit(place, manifest)),
        training=True,
        ledger=True,
        members=True,
    )
    assert state(told) == state(written)

    # With the snapshot complete, the shard comes back from it.
    commit = ps_pb2.CommitSnapshotRequest(segment=cut.segment)
    process.call("CommitSnapshot", commit)
    assert segments.numbers(folder_of) == [cut.segment]
    version = process.status().version
    process.kill()
    process.start()
    status = process.status()
    assert (status.version, status.restore_loss) == (version, "")
    assert status.replayed_pushes == version - cut.version
    with pytest.raises(rpc.RpcError, match="NOT_FOUND"):
        process.call("AwaitSnapshot", wait)
    commit = ps_pb2.CommitSnapshotRequest(segment=cut.segment + 1)
    with pytest.raises(rpc.RpcError, match="segment: the journal is at"):
        process.call("CommitSnapshot", commit)


def test_a_cut_to_nowhere_says_so(process):
    process.join()
    cut = process.call("Cut", ps_pb2.CutRequest(folder="missing"))
    assert cut.version == 0
    with pytest.raises(rpc.RpcError, match="No such file or directory"):
        process.call(
            "AwaitSnapshot", ps_pb2.AwaitSnapshotRequest(folder="missing")
        )
    assert process.push(0) == ps_pb2.PushReply.APPLIED
