import asyncio
import contextlib

import pytest

from elastic_keras.config import JobConfig
from elastic_keras.master.job import Job
from elastic_keras.master.ranges import JobRanges
from elastic_keras.master.servicer import MasterServicer
from elastic_keras.master.shards import Shards
from elastic_keras.wire import rpc
from elastic_keras.wire.proto import master_pb2, ps_pb2, tensor_pb2
from tests.master.stand_in_shards import snapshot_reply
from tests.master.stand_ins import ranges, states

_MASTER = master_pb2.DESCRIPTOR.services_by_name["Master"]
_SHARD = ps_pb2.DESCRIPTOR.services_by_name["ParameterServer"]
_TOKEN = "a token"


class _ShardServicer:
    """Records what the master asks of a shard."""

    def __init__(self):
        self.calls = []
        self.members = []
        self.examples = {}

    async def Join(self, request):  # noqa: N802
        self.calls.append(("Join", request))
        return ps_pb2.ShardJoinReply()

    async def SetMembers(self, request):  # noqa: N802
        self.members.append((request.number, list(request.members)))
        return tensor_pb2.Empty()

    async def Flush(self, request):  # noqa: N802
        self.calls.append(("Flush", request))
        return ps_pb2.FlushReply(iterations=3)

    async def Finalize(self, request):  # noqa: N802
        self.calls.append(("Finalize", request))
        return tensor_pb2.Empty()

    async def AwaitSnapshot(self, request):  # noqa: N802
        self.calls.append(("AwaitSnapshot", request))
        return snapshot_reply(version=3)

    async def GetStatus(self, request):  # noqa: N802
        return ps_pb2.ShardStatus(
            shard=0, batches=3, version=3, examples_by_epoch=self.examples
        )

    async def _other(self, request):
        raise rpc.Refused("UNIMPLEMENTED", "The master has no need of this.")

    InitDense = Pull = Push = SetLearningRate = GetProgress = _other

    async def Cut(self, request):  # noqa: N802
        self.calls.append(("Cut", request))
        return ps_pb2.CutReply(segment=-1)

    async def CommitSnapshot(self, request):  # noqa: N802
        self.calls.append(("CommitSnapshot", request))
        return tensor_pb2.Empty()

    Snapshot = _other


class _Bench:
    def __init__(self, job, client, shard):
        self.job = job
        self.shard = shard
        self.client = client

    async def call(self, method, **fields):
        entry = _MASTER.methods_by_name[method].input_type.name
        module = tensor_pb2 if entry == "Empty" else master_pb2
        request = getattr(module, entry)(**fields)
        return await asyncio.wrap_future(
            self.client.call_future(method, request)
        )

    async def watch(self):
        """Returns all that the job's watchers are told."""
        stream = self.client.stream("WatchJob", tensor_pb2.Empty())
        return await asyncio.to_thread(list, stream)


@contextlib.asynccontextmanager
async def _bench(tmp_path, scan=None, **options):
    addresses = [f"unix:{tmp_path}/{name}.sock" for name in ("master", "ps")]
    options = {"training_data": "x", **options}
    config = JobConfig.from_options(**options)
    config = type(config)(
        **{
            **vars(config),
            "job_id": "job",
            "master_address": addresses[0],
            "ps_addresses": (addresses[1],),
        }
    )
    shard = _ShardServicer()
    shard_server = rpc.make_server(shard, _SHARD, addresses[1], token=_TOKEN)
    shards = Shards(config, _TOKEN)
    scan = scan or (lambda _: JobRanges(ranges(4, 2), []))
    job = Job(config, str(tmp_path), shards, scan=scan)
    server = rpc.make_server(
        MasterServicer(job), _MASTER, addresses[0], token=_TOKEN
    )
    await shard_server.start()
    await server.start()
    client = rpc.Client(addresses[0], _MASTER, token=_TOKEN)
    run = asyncio.create_task(job.run())
    try:
        yield _Bench(job, client, shard)
    finally:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        client.close()
        await server.stop(0)
        await shards.close()
        await shard_server.stop(0)


async def _join(bench, **fields):
    fields = {
        "job_id": "job",
        "protocol_version": rpc.PROTOCOL_VERSION,
        **fields,
    }
    return await bench.call("Join", **fields)


def _record(range_):
    return range_.source, range_.start, range_.count


def test_a_whole_job_over_grpc(tmp_path):
    async def main():
        async with _bench(tmp_path, shuffle=False) as bench:
            joined = await _join(bench)
            assert joined.chief
            assert _record(joined.sample) == ("data", 0, 4)
            worker = joined.worker
            first = await bench.call("GetTask", worker=worker, call=1)
            assert first.kind == master_pb2.TASK_TRAIN
            assert _record(first.range) == ("data", 0, 4)
            assert first.member > 0
            assert first.shuffle_seed == -1
            assert not first.resumed
            # The shard knew the member before the task was handed out.
            assert bench.shard.members[-1][1] == [first.member]
            second = await bench.call("GetTask", worker=worker, call=2)
            assert second.member == first.member
            beat = await bench.call(
                "Heartbeat", worker=worker, steps=2, examples=4, loss_sum=1.0
            )
            assert beat.chief
            assert beat.workers_alive == 1
            bench.shard.examples = {0: 6}
            for task in (first, second):
                await bench.call(
                    "ReportTask",
                    worker=worker,
                    lease=task.lease,
                    records=task.range.count,
                    examples=task.range.count,
                    batches=2,
                    states=states(task.range),
                )
            merge = await bench.call("GetTask", worker=worker, call=3)
            assert merge.kind == master_pb2.TASK_MERGE
            await bench.call(
                "ReportTask",
                worker=worker,
                lease=merge.lease,
                result='{"loss": 2.5}',
            )
            stop = await bench.call("GetTask", worker=worker, call=4)
            assert stop.kind == master_pb2.TASK_STOP
            seen = await bench.watch()
            assert seen[-1].phase == "succeeded"
            assert seen[-1].records_done == seen[-1].records_expected == 6
            assert [call for call, _ in bench.shard.calls] == [
                "Join",
                "Flush",
                "Finalize",
                "Flush",
                "Cut",
                "AwaitSnapshot",
                "CommitSnapshot",
            ]
            await bench.call("Leave", worker=worker)
            assert not bench.job.membership.alive
            assert bench.job.history.epochs[0].values == {"loss": 2.5}

    asyncio.run(main())


def test_a_join_of_another_job_is_refused(tmp_path):
    async def main():
        async with _bench(tmp_path) as bench:
            with pytest.raises(rpc.RpcError, match="another"):
                await _join(bench, job_id="another")
            with pytest.raises(rpc.RpcError, match="protocol_version"):
                await _join(bench, protocol_version=99)

    asyncio.run(main())


def test_calls_of_an_unknown_worker_are_refused(tmp_path):
    async def main():
        async with _bench(tmp_path) as bench:
            for method in ("GetTask", "ReserveSteps", "ReportTask"):
                with pytest.raises(rpc.RpcError) as caught:
                    await bench.call(method, worker=77)
                assert caught.value.code == "NOT_FOUND"
            assert (await bench.call("Heartbeat", worker=77)).unknown

    asyncio.run(main())


def test_bad_data_ends_the_job_with_exit_code_2(tmp_path):
    from elastic_keras.config import ConfigError

    def scan(_):
        raise ConfigError("No such file. Received: training_data='x'")

    async def main():
        async with _bench(tmp_path, scan=scan) as bench:
            last = (await bench.watch())[-1]
            assert last.phase == "failed"
            assert last.exit_code == 2
            assert last.error.startswith("No such file")
            with pytest.raises(rpc.RpcError, match="over"):
                await _join(bench)

    asyncio.run(main())


def test_a_call_whose_client_went_away_holds_no_task(tmp_path):
    async def main():
        async with _bench(tmp_path) as bench:
            worker = (await _join(bench)).worker
            tasks = [
                await bench.call("GetTask", worker=worker, call=call)
                for call in (1, 2)
            ]
            waiting = asyncio.create_task(
                bench.call("GetTask", worker=worker, call=3)
            )
            await asyncio.sleep(0.05)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await bench.call(
                "ReportTask",
                worker=worker,
                lease=tasks[0].lease,
                released=True,
            )
            again = await bench.call("GetTask", worker=worker, call=4)
            assert again.task == tasks[0].task
            assert again.resumed

    asyncio.run(main())


def test_the_launcher_reports_a_dead_process(tmp_path):
    async def main():
        async with _bench(tmp_path) as bench:
            dead = (await _join(bench, index=1, pid=77)).worker
            await bench.call("GetTask", worker=dead)
            await bench.call("Leave", index=1, pid=77)
            assert not bench.job.membership.alive
            worker = (await _join(bench, index=1, pid=78)).worker
            task = await bench.call("GetTask", worker=worker)
            assert task.resumed

    asyncio.run(main())


def test_stop_job(tmp_path):
    async def main():
        async with _bench(tmp_path) as bench:
            worker = (await _join(bench)).worker
            await bench.call("GetTask", worker=worker)
            await bench.call("StopJob", reason="enough")
            task = await bench.call("GetTask", worker=worker)
            assert task.kind == master_pb2.TASK_STOP
            assert (await bench.call("Heartbeat", worker=worker)).stop
            last = (await bench.watch())[-1]
            assert (last.phase, last.error) == ("stopped", "enough")

    asyncio.run(main())
