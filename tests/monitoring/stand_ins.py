"""Jobs as masters describe them."""

from elastic_keras.wire.proto import master_pb2, ps_pb2


def describe(phase="training", **status):
    """A job of two workers, the second one slow, and two shards."""
    return master_pb2.JobDescription(
        job_id="job",
        seconds=75.0,
        status=master_pb2.JobStatus(
            **{
                "phase": phase,
                "epoch": 1,
                "num_epochs": 3,
                "records_done": 500,
                "records_expected": 1500,
                "steps": 40,
                "examples_per_second": 1234.5,
                "seconds_left": 61.0,
                "loss": 0.5,
                "metrics": {"auc": 0.75},
                "evaluation": {"auc": 0.625},
                "staleness_max": 5,
                "staleness_mean": 1.5,
                "workers_alive": 2,
                "tasks_waiting": 7,
                "tasks_running": 2,
                **status,
            }
        ),
        workers=[
            _worker(0, own_seconds=0.002),
            _worker(1, own_seconds=0.25),
            master_pb2.WorkerStatus(index=2),
        ],
        shards=[_shard(0, 100.0), _shard(1, 2000.0)],
        restarts={"worker": 2, "ps": 0, "master": 0},
    )


def _worker(index, own_seconds):
    return master_pb2.WorkerStatus(
        index=index,
        alive=True,
        training=True,
        steps=20,
        examples=320,
        examples_per_second=600.0,
        own_seconds=own_seconds,
        pull_seconds=0.125,
        push_seconds=0.003,
    )


def _shard(index, rate):
    return master_pb2.ShardLoad(
        status=ps_pb2.ShardStatus(
            shard=index,
            version=40,
            rows=3,
            bytes=4096,
            tables=[ps_pb2.TableStatus(name="users", rows=3, bytes=99)],
            pulled_bytes=1 << 20,
            pushed_bytes=1 << 19,
            waiting_pulls=1,
        ),
        pulled_bytes_per_second=rate,
        pushed_bytes_per_second=rate / 2,
    )
