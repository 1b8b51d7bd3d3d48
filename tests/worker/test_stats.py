from elastic_keras.worker.stats import WorkerStats


def test_a_heartbeat_tells_what_was_counted_since_the_last():
    stats = WorkerStats()
    stats.add_step(32, 0.5)
    stats.add_step(16, 0.25)
    stats.add_pull(0.5, 100)
    stats.add_pull(0.25, 50)
    stats.add_push(1.0, 7)
    stats.add_computing(0.5)
    stats.add_computing(0.25)
    stats.set_metrics({"auc": 0.75})
    first = stats.take()
    assert (first.steps, first.examples, first.loss_sum) == (2, 48, 0.75)
    assert (first.pull.count, first.pull.seconds) == (2, 0.75)
    assert (first.pull.max_seconds, first.pull.bytes) == (0.5, 150)
    assert (first.push.count, first.push.bytes) == (1, 7)
    assert dict(first.metrics) == {"auc": 0.75}
    assert first.seconds > 0
    assert first.computing_seconds == 0.75
    second = stats.take()
    assert (second.steps, second.pull.count, second.push.bytes) == (0, 0, 0)
    # Metrics are the newest known, not a count.
    assert dict(second.metrics) == {"auc": 0.75}
