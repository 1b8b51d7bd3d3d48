import asyncio
import collections

from tensorboard.plugins.custom_scalar import layout_pb2, metadata

from elastic_keras.master.reporting import Reporting
from elastic_keras.wire.proto import master_pb2
from tests.master.stand_in_shards import StandInShards
from tests.master.stand_ins import (
    StandInWorker,
    make_job,
    run_job,
)


class _Writer:
    def __init__(self):
        self.points = collections.defaultdict(list)
        self.histograms = {}
        self.texts = {}
        self.pages = []
        self.flushes = 0

    def scalars(self, values, step):
        for tag, value in values.items():
            assert isinstance(value, float)
            self.points[tag].append((step, value))

    def histogram_counts(self, tag, counts, step):
        self.histograms[tag] = (step, counts)

    def text(self, tag, text, step):
        self.texts[tag] = text

    def add(self, summary, step):
        (value,) = summary.value
        self.pages.append((step, value))

    def flush(self):
        self.flushes += 1


def test_a_job_leaves_its_points(tmp_path):
    writer = _Writer()

    async def main():
        shards = StandInShards()
        job = make_job(tmp_path, shards, validation=(4,), num_epochs=2)
        reporting = Reporting(job, writer, 3600.0)
        points = asyncio.create_task(reporting.run())
        worker = StandInWorker(job, shards, 0)
        running = asyncio.create_task(run_job(job, [worker]))
        while not worker.trained:
            await asyncio.sleep(0)
        latency = master_pb2.LatencyStats(
            count=2, seconds=0.5, max_seconds=0.4, bytes=10
        )
        job.heartbeat(
            master_pb2.HeartbeatRequest(
                worker=worker.number,
                steps=4,
                examples=8,
                loss_sum=2.0,
                pull=latency,
                push=latency,
                metrics={"auc": 0.5},
            )
        )
        reporting.write()
        assert job.status().loss == 0.5
        await running
        reporting.write()
        points.cancel()
        return job.status()

    ended = asyncio.run(main())
    # The whole epoch's value, not that of its last batches.
    assert ended.loss == 5.5
    last = {tag: points[-1] for tag, points in writer.points.items()}
    assert last["train/loss"][1] == 0.5
    assert last["train/auc"][1] == 0.5
    assert writer.points["speed/worker_0/examples_per_second"][0][1] > 0
    assert last["pull/milliseconds"][1] == 250
    assert last["push/milliseconds_max"][1] == 400
    assert last["push/bytes"][1] == 5
    # Each evaluation and each epoch once, at its own step.
    assert writer.points["evaluation/loss"] == [(7, 1.5), (14, 1.5)]
    assert writer.points["epoch/loss"] == [(7, 5.5), (14, 5.5)]
    assert last["shard_1/rows"] == (14, 3)
    assert last["shard_1/tables/items/bytes"] == (14, 99)
    assert last["tasks/waiting"] == (14, 0)
    assert writer.points["members/training"][0][1] <= 1
    assert writer.histograms["staleness"] == (14, [28])
    assert '"num_epochs": 2' in writer.texts["config"]
    assert writer.flushes == 2
    # Over all shards.
    assert last["tables/items/rows"] == (14, 6)
    assert last["tables/items/bytes"] == (14, 198)
    assert _charts(writer.pages[-1]) >= {"loss", "auc", "rows, by table"}


def _charts(page):
    """Returns the titles of a page's charts."""
    _, value = page
    assert value.tag == metadata.CONFIG_SUMMARY_TAG
    layout = layout_pb2.Layout.FromString(value.tensor.string_val[0])
    return {chart.title for part in layout.category for chart in part.chart}


def test_a_pause_leaves_the_speed_before_it(tmp_path):
    writer = _Writer()

    async def main():
        shards = StandInShards()
        job = make_job(tmp_path, shards)
        reporting = Reporting(job, writer, 3600.0)
        worker = StandInWorker(job, shards, 0)
        await run_job(job, [worker])
        beat = master_pb2.HeartbeatRequest(
            worker=worker.number,
            steps=4,
            examples=8,
            loss_sum=2.0,
            seconds=0.5,
        )
        job.heartbeat(beat)
        reporting.write()
        # Nobody trains: each step shows its last point only.
        reporting.write()

    asyncio.run(main())
    # By the time that the heartbeat tells of.
    ((_, speed),) = writer.points["speed/examples_per_second"]
    assert speed == 16
    assert writer.points["speed/steps_per_second"][0][1] == 8
    assert len(writer.points["tasks/waiting"]) == 2
    assert len(writer.pages) == 1
