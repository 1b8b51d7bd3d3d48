"""What is to be seen of a running job."""

import asyncio

from elastic_keras.wire.proto import master_pb2
from tests.master.stand_in_shards import StandInShards
from tests.master.stand_ins import StandInWorker, make_job, run_job


def test_members_shards_and_restarts(tmp_path):
    (tmp_path / "restarts.json").write_text('{"worker": 2}')

    async def main():
        shards = StandInShards()
        job = make_job(tmp_path, shards, num_workers=3)
        before = job.describe()
        workers = [StandInWorker(job, shards, index) for index in (0, 1)]
        running = asyncio.create_task(run_job(job, workers))
        while not workers[1].trained:
            await asyncio.sleep(0)
        job.heartbeat(
            master_pb2.HeartbeatRequest(
                worker=workers[1].number,
                steps=4,
                examples=8,
                seconds=0.5,
                computing_seconds=0.2,
            )
        )
        during = job.describe()
        await running
        return before, during, job.describe()

    before, during, after = asyncio.run(main())
    assert before.status.phase == "starting"
    assert [worker.index for worker in before.workers] == [0, 1, 2]
    assert not any(worker.alive for worker in before.workers)
    assert during.status.phase == "training"
    assert dict(during.restarts) == {"worker": 2, "ps": 0, "master": 0}
    alive = [worker.alive for worker in during.workers]
    assert alive == [True, True, False]
    second = during.workers[1]
    assert (second.steps, second.examples) == (4, 8)
    assert second.examples_per_second == 16
    assert second.own_seconds == 0.125
    assert after.status.phase == "succeeded"
    assert not any(worker.training for worker in after.workers)
    assert [load.status.version for load in after.shards] == [7, 7]
