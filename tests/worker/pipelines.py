"""A pipeline on real shards, and what became of its batches."""

import threading

from elastic_keras.worker.pipeline import Pipeline
from tests.worker import stand_ins
from tests.worker.stand_ins import PATIENCE, Ones

MODEL = stand_ins.signature(states=((2,),))


def _describe(error):
    return {"error": repr(error), "fatal": False, "exit_code": 1}


def make_pipeline(shards, master, data, computing=None, **options):
    """Returns a pipeline and its computing."""
    computing = computing or Ones(MODEL)
    pipeline = Pipeline(
        client=shards.client(MODEL),
        master=master,
        computing=computing,
        open_data=lambda task: data(task),
        other_task=options.pop("other_task", lambda task: None),
        describe=_describe,
        window=options.pop("window", 2),
        reserve=options.pop("reserve", False),
    )
    assert not options
    return pipeline, computing


def run(pipeline):
    """Runs a pipeline; fails where it does not end."""
    outcomes = []
    thread = threading.Thread(
        target=lambda: outcomes.append(pipeline.run()), daemon=True
    )
    thread.start()
    thread.join(PATIENCE)
    assert outcomes, "the pipeline hangs"
    return outcomes[0]


def assert_applied(shards, batches):
    """Asserts that each of the batches was applied once on every shard."""
    expected = {}
    for ids in batches:
        for row in ids:
            expected[row] = expected.get(row, 0) - 1.0
    assert {k: v[0] for k, v in shards.rows().items()} == expected
    for shard in shards.shards:
        assert shard.report().batches == len(batches)
