"""How a job looks from outside while it runs."""

import asyncio

from elastic_keras.wire.proto import master_pb2
from tests.master.stand_in_shards import StandInShards
from tests.master.stand_ins import (
    StandInWorker,
    make_job,
    run_job,
)


def test_an_epochs_values_stand_until_later_steps_are_heard_of(tmp_path):
    def beat(job, worker):
        job.heartbeat(
            master_pb2.HeartbeatRequest(
                worker=worker.number, steps=4, examples=8, loss_sum=2.0
            )
        )

    async def main():
        shards = StandInShards()
        job = make_job(tmp_path, shards, validation=(4,), num_epochs=2)
        worker = StandInWorker(job, shards, 0)
        running = asyncio.create_task(run_job(job, [worker]))
        losses = []
        while not worker.trained:
            await asyncio.sleep(0)
        beat(job, worker)
        losses.append(job.status().loss)
        while job.dispatch.training.epoch == 0:
            await asyncio.sleep(0)
        losses.append(job.status().loss)
        # 8 steps are more than the 7 of the first epoch.
        beat(job, worker)
        losses.append(job.status().loss)
        await running
        losses.append(job.status().loss)
        return losses

    assert asyncio.run(main()) == [0.5, 5.5, 0.5, 5.5]
