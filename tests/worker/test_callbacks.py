import json

import keras
import pytest

from elastic_keras.config import ConfigError
from elastic_keras.wire.proto import master_pb2
from elastic_keras.worker import callbacks as job_callbacks
from elastic_keras.worker.callbacks import JobCallbacks
from elastic_keras.worker.metrics import MetricSet


class _Recorder(keras.callbacks.Callback):
    """Notes every hook with its arguments."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __getattribute__(self, name):
        if name.startswith("on_"):
            calls = object.__getattribute__(self, "calls")
            return lambda *args, **kwargs: calls.append(
                (name, *args, *kwargs.values())
            )
        return object.__getattribute__(self, name)


class _Batches(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        pass


class _TestBatches(keras.callbacks.Callback):
    def on_test_batch_begin(self, batch, logs=None):
        pass


class _Restarts:
    """Counts how often running logs begin anew."""

    def __init__(self):
        self.count = 0

    def restart(self):
        self.count += 1


class _Job:
    """Callbacks around a small model, and what they did to the job."""

    def __init__(self, *callbacks, rate=0.5):
        self.model = keras.Sequential(
            [keras.Input((1,)), keras.layers.Dense(1)]
        )
        self.optimizer = keras.optimizers.SGD(rate)
        self.rates = []
        self.refreshed = 0
        self.stopped = 0
        self.train_logs, self.test_logs = _Restarts(), _Restarts()
        self.train_function = keras.ops.square
        self.callbacks = JobCallbacks(
            list(callbacks),
            self.model,
            epochs=3,
            optimizers=[self.optimizer],
            set_learning_rate=lambda i, rate: self.rates.append((i, rate)),
            refresh=self._refresh,
            stop_training=self._stop,
            running=(self.train_logs, self.test_logs),
            train_function=lambda: self.train_function,
        )

    def _stop(self):
        self.stopped += 1

    def _refresh(self):
        self.refreshed += 1

    def run(self, hook, epoch=0, logs=None):
        return self.callbacks.run(
            master_pb2.Task(
                kind=master_pb2.TASK_CALLBACK,
                hook=hook,
                epoch=epoch,
                logs=json.dumps(logs or {}),
            )
        )


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ("on_train_begin", ("on_train_begin", {})),
        ("on_epoch_begin", ("on_epoch_begin", 2, {"loss": 1.5})),
        ("on_epoch_end", ("on_epoch_end", 2, {"loss": 1.5})),
        ("on_test_begin", ("on_test_begin", {})),
        ("on_test_end", ("on_test_end", {"loss": 1.5})),
        ("on_train_end", ("on_train_end", {"loss": 1.5})),
    ],
)
def test_hooks_get_keras_arguments(hook, expected):
    recorder = _Recorder()
    job = _Job(recorder)
    if hook != "on_train_begin":
        job.run("on_train_begin")
    if hook == "on_test_end":
        job.run("on_test_begin")
    if hook == "on_epoch_end":
        job.run("on_epoch_begin", epoch=2)
    recorder.calls.clear()
    assert job.run(hook, epoch=2, logs={"loss": 1.5}) == {"stop": False}
    assert recorder.calls == [expected]


def test_ends_see_the_newest_parameters():
    job = _Job(keras.callbacks.Callback())
    for hook in ("on_train_begin", "on_epoch_begin", "on_test_begin"):
        job.run(hook)
    assert job.refreshed == 0
    for hook in ("on_epoch_end", "on_test_end", "on_train_end"):
        job.run(hook)
    assert job.refreshed == 3


def test_callbacks_learn_of_the_model_where_they_run():
    recorder = _Recorder()
    job = _Job(recorder)
    # So it stays in a worker that is never the chief.
    assert recorder.calls == []
    assert recorder.model is None
    job.run("on_train_begin")
    assert recorder.model is job.model


def test_batches_are_numbered_within_the_epoch():
    recorder = _Recorder()
    job = _Job(recorder)
    for epoch in range(2):
        job.run("on_epoch_begin", epoch)
        for _ in range(2):
            job.callbacks.train_batch_begin()
            job.callbacks.train_batch_end({"loss": 0.5})
    numbers = [c for c in recorder.calls if c[0] == "on_train_batch_end"]
    assert numbers == [
        ("on_train_batch_end", batch, {"loss": 0.5}) for batch in (0, 1, 0, 1)
    ]


def test_batches_are_numbered_within_the_evaluation():
    recorder = _Recorder()
    job = _Job(recorder)
    for _ in range(2):
        job.run("on_test_begin")
        # Two tasks of it.
        for _ in range(2):
            job.callbacks.test_batch_begin()
            job.callbacks.test_batch_end({"loss": 0.5})
        job.run("on_test_end")
    numbers = [c for c in recorder.calls if c[0] == "on_test_batch_end"]
    assert numbers == [
        ("on_test_batch_end", batch, {"loss": 0.5}) for batch in (0, 1, 0, 1)
    ]


@pytest.mark.parametrize(
    ("hook", "begun"),
    [
        ("on_epoch_begin", ["on_train_begin"]),
        ("on_epoch_end", ["on_train_begin", "on_epoch_begin"]),
        ("on_train_end", ["on_train_begin"]),
        ("on_test_end", ["on_test_begin"]),
    ],
)
def test_a_new_chief_sees_the_begin_that_it_missed(hook, begun):
    recorder = _Recorder()
    job = _Job(recorder)
    job.run(hook)
    called = [
        c[0]
        for c in recorder.calls
        if c[0].startswith("on_t") or "epoch" in c[0]
    ]
    assert called == [*begun, hook]


def test_evaluations_begin_each_time():
    recorder = _Recorder()
    job = _Job(recorder)
    job.run("on_train_begin")
    for _ in range(2):
        job.run("on_test_begin")
        job.run("on_test_end")
    called = [c[0] for c in recorder.calls]
    assert called.count("on_test_begin") == called.count("on_test_end") == 2


@pytest.mark.parametrize(
    ("callback", "train", "test"),
    [
        (keras.callbacks.Callback, False, False),
        (_Batches, True, False),
        (_TestBatches, False, True),
        (lambda: keras.callbacks.EarlyStopping(), False, False),
        (lambda: keras.callbacks.TerminateOnNaN(), True, False),
        (
            lambda: keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: None
            ),
            True,
            False,
        ),
    ],
)
def test_batch_hooks_cost_nothing_where_nobody_wants_them(
    callback, train, test
):
    callbacks = _Job(callback()).callbacks
    assert callbacks.wants_train_batches is train
    assert callbacks.wants_test_batches is test


def test_a_callback_can_stop_training():
    stopping = keras.callbacks.EarlyStopping(monitor="loss", patience=0)
    job = _Job(stopping)
    job.run("on_train_begin")
    assert job.run("on_epoch_end", 0, {"loss": 1.0}) == {"stop": False}
    assert job.run("on_epoch_end", 1, {"loss": 2.0}) == {"stop": True}


@pytest.mark.parametrize("hook", ["on_train_batch_begin", "on_train_batch_end"])
def test_a_batch_hook_can_stop_training_after_its_batch(hook):
    class Stop(keras.callbacks.Callback):
        pass

    def stop(self, batch, logs=None):
        self.model.stop_training = batch == 1

    setattr(Stop, hook, stop)
    job = _Job(Stop())
    job.callbacks.train_batch_begin()
    job.callbacks.train_batch_end({})
    assert job.stopped == 0
    job.callbacks.train_batch_begin()
    assert job.stopped == 0
    job.callbacks.train_batch_end({})
    assert job.stopped == 1


@pytest.mark.parametrize("hook", ["on_train_begin", "on_epoch_begin"])
def test_a_begin_hook_can_stop_training_after_the_next_batch(hook):
    callback = keras.callbacks.Callback()
    setattr(
        callback, hook, lambda *_: setattr(job.model, "stop_training", True)
    )
    job = _Job(callback)
    assert not job.callbacks.wants_train_batches
    job.run(hook)
    assert job.callbacks.wants_train_batches
    job.callbacks.train_batch_begin()
    assert job.stopped == 0
    job.callbacks.train_batch_end({})
    assert job.stopped == 1


def test_running_logs_begin_anew_with_the_epoch_and_the_evaluation():
    job = _Job(_Batches(), _TestBatches())
    job.run("on_train_begin")
    for epoch in range(2):
        job.run("on_epoch_begin", epoch)
        assert job.test_logs.count == epoch
        before = job.train_logs.count
        job.callbacks.train_batch_begin()
        job.callbacks.train_batch_end({})
        job.run("on_test_begin")
        job.callbacks.test_batch_begin()
        assert job.train_logs.count == before
        job.run("on_test_end")
        job.run("on_epoch_end", epoch)
    assert job.test_logs.count == 2


def test_a_new_learning_rate_goes_to_the_shards():
    def schedule(epoch, rate):
        return 0.5 if epoch == 0 else rate / 4

    job = _Job(keras.callbacks.LearningRateScheduler(schedule))
    job.run("on_epoch_begin", 0)
    assert job.rates == []
    job.run("on_epoch_begin", 1)
    job.run("on_epoch_end", 1)
    assert job.rates == [(0, 0.125)]


def test_a_batch_hook_may_set_the_learning_rate():
    class Warmup(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            self.model.optimizer.learning_rate = 0.25 * (batch + 1)

    job = _Job(Warmup(), rate=0.25)
    for _ in range(2):
        job.callbacks.train_batch_begin()
        job.callbacks.train_batch_end({})
    assert job.rates == [(0, 0.5)]


def test_a_rate_set_after_a_batch_is_that_of_the_next():
    class Decay(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.optimizer.learning_rate = 0.25

    job = _Job(Decay(), rate=0.5)
    job.callbacks.train_batch_begin()
    job.callbacks.train_batch_end({})
    # The batch itself is not pushed yet.
    assert job.rates == []
    job.callbacks.train_batch_begin()
    assert job.rates == [(0, 0.25)]


def test_a_schedule_is_the_shards_business():
    decay = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    job = _Job(keras.callbacks.Callback(), rate=decay)
    job.optimizer.iterations.assign(4)
    job.run("on_epoch_end")
    assert job.rates == []


def test_reduce_lr_on_plateau_works():
    job = _Job(
        keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1)
    )
    job.run("on_train_begin")
    for epoch, loss in enumerate((1.0, 2.0, 3.0)):
        job.run("on_epoch_end", epoch, {"val_loss": loss})
    assert job.rates == [(0, 0.25), (0, 0.125)]


@pytest.mark.parametrize(
    "kind", [keras.callbacks.EarlyStopping, keras.callbacks.ReduceLROnPlateau]
)
@pytest.mark.parametrize(
    ("metric", "values"), [("auc", (0.5, 0.9)), ("mae", (0.9, 0.5))]
)
def test_the_metric_says_which_way_it_gets_better(kind, metric, values):
    metrics = MetricSet(
        {
            "auc": keras.metrics.AUC(name="another"),
            "mae": keras.metrics.MeanAbsoluteError(),
        }
    )
    callback = kind(monitor=f"val_{metric}", patience=1)
    job_callbacks.set_modes([callback], metrics.modes())
    job = _Job(callback)
    job.run("on_train_begin")
    for epoch, value in enumerate(values):
        result = job.run("on_epoch_end", epoch, {f"val_{metric}": value})
    assert result == {"stop": False}
    assert job.rates == []


def test_a_mode_that_is_given_stays():
    callback = keras.callbacks.EarlyStopping("val_auc", mode="min")
    job_callbacks.set_modes([callback], {"auc": "max"})
    assert callback.mode == "min"


def test_best_weights_cannot_be_restored():
    callback = keras.callbacks.EarlyStopping(restore_best_weights=True)
    with pytest.raises(ConfigError, match="--early_stopping_patience"):
        job_callbacks.check([callback])


@pytest.mark.parametrize("given", [[], None, ()])
def test_no_callbacks(given):
    assert job_callbacks.check(given) == []


def test_something_else_is_no_callback():
    with pytest.raises(ConfigError, match="Received: 'mine'"):
        job_callbacks.check(["mine"])


@pytest.mark.parametrize(
    "callback",
    [
        keras.callbacks.ModelCheckpoint("model.keras"),
        keras.callbacks.BackupAndRestore("backup"),
    ],
)
def test_a_model_is_not_saved_without_its_rows(callback):
    job_callbacks.check_tables([callback], [])
    with pytest.raises(ConfigError, match="the tables users, items"):
        job_callbacks.check_tables([callback], ["users", "items"])


class _SeesTheGraph(keras.callbacks.Callback):
    """Looks for the compiled step where Keras's TensorBoard does."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_begin(self, batch, logs=None):
        self.seen.append(self.model.train_function)

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(self.model.train_function)


def test_callbacks_find_the_compiled_step_once_it_has_run():
    callback = _SeesTheGraph()
    job = _Job(callback)
    job.callbacks.train_batch_begin()
    job.callbacks.train_batch_end({})
    assert callback.seen == [None, job.train_function]


@pytest.mark.parametrize(
    ("options", "later"),
    [({}, False), ({"update_freq": "batch"}, True), ({"update_freq": 9}, True)],
)
def test_tensorboard_costs_batches_no_time_that_it_does_not_need(
    tmp_path, options, later
):
    job = _Job(keras.callbacks.TensorBoard(tmp_path, **options))
    assert job.callbacks.wants_train_batches
    assert job.callbacks.wants_test_batches == later
    job.run("on_train_begin")
    job.callbacks.train_batch_begin()
    job.callbacks.train_batch_end({"loss": 1.0})
    assert job.callbacks.wants_train_batches == later
    job.run("on_train_end")


def test_a_stop_holds_the_hooks_of_batches(tmp_path):
    job = _Job(keras.callbacks.TensorBoard(tmp_path))
    job.run("on_train_begin")
    job.model.stop_training = True
    for _ in range(2):
        job.callbacks.train_batch_begin()
        job.callbacks.train_batch_end({})
    assert job.callbacks.wants_train_batches
    assert job.stopped == 2
