import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError
from elastic_keras.worker.metrics import MetricSet

RNG = np.random.default_rng(3)
Y = (RNG.random((40, 1)) < 0.4).astype(np.float32)
P = RNG.random((40, 1)).astype(np.float32)


def metrics():
    return {
        "auc": keras.metrics.AUC(),
        "recall": keras.metrics.Recall(),
        "rmse": keras.metrics.RootMeanSquaredError(),
        "f1": keras.metrics.F1Score(threshold=0.5),
        "near": lambda labels, p: tf.abs(labels - p) < 0.5,
        "total": lambda labels, p: tf.reduce_mean(p),
    }


def take_in(made, parts):
    for start, stop in parts:
        labels, predictions = Y[start:stop], P[start:stop]
        made.update(
            tf.constant(labels),
            tf.constant(predictions),
            tf.constant(predictions.mean()),
            tf.constant(stop - start, tf.int64),
        )
    return made


def expected():
    values = {
        "loss": P.mean(),
        "near": (np.abs(Y - P) < 0.5).mean(),
        "total": P.mean(),
    }
    for name in ("auc", "recall", "rmse", "f1"):
        metric = metrics()[name]
        metric.update_state(Y, P)
        values[name] = float(np.squeeze(metric.result()))
    return values


def squeezed(values):
    return {name.removesuffix("_0"): value for name, value in values.items()}


def test_batches_of_any_size_give_the_value_over_all():
    made = take_in(MetricSet(metrics()), [(0, 7), (7, 8), (8, 40)])
    assert squeezed(made.result()) == pytest.approx(expected(), rel=1e-5)
    made.reset()
    assert made.state()["loss"][1] == 0


def test_states_of_two_workers_add_up_to_those_of_one():
    first = take_in(MetricSet(metrics()), [(0, 13)])
    second = take_in(MetricSet(metrics()), [(13, 40)])
    states = {
        name: [a + b for a, b in zip(arrays, second.state()[name], strict=True)]
        for name, arrays in first.state().items()
    }
    before = first.result()
    merged = first.result_from(states)
    assert squeezed(merged) == pytest.approx(expected(), rel=1e-5)
    assert first.result() == before


def test_no_states_give_the_value_of_nothing():
    made = take_in(MetricSet({"auc": keras.metrics.AUC()}), [(0, 5)])
    assert made.result_from({})["loss"] == 0.0
    assert made.result()["loss"] > 0


def test_makes_variables_before_a_graph_needs_them():
    made = MetricSet({"f1": keras.metrics.F1Score()})
    spec = tf.TensorSpec((None, 1))
    made.build(spec, spec)
    names = {v.name for v in made._metrics["f1"][1].variables}
    assert "true_positives" in names

    @tf.function(autograph=False)
    def update(labels, predictions):
        made.update(labels, predictions, predictions[0, 0], 1)

    update(tf.constant(Y), tf.constant(P))
    assert made.state()["f1"][0].sum() > 0


def test_metrics_per_output():
    made = MetricSet(
        {
            "a": {"mae": keras.metrics.MeanAbsoluteError()},
            "b": {"mae": keras.metrics.MeanAbsoluteError(), "sum": total},
        },
        ["a", "b"],
    )
    loss, size = tf.constant(0.0), tf.constant(40, tf.int64)
    both = {"a": tf.constant(P), "b": tf.constant(2 * P)}
    mae = {"a": np.abs(Y - P).mean(), "b": np.abs(Y - 2 * P).mean()}
    # Labels by output, by position, or the same for all outputs.
    forms = [
        ({"a": Y, "b": Y}, both),
        ([Y, Y], list(both.values())),
        (tf.constant(Y), both),
    ]
    for labels, predictions in forms:
        made.reset()
        made.update(labels, predictions, loss, size)
        assert made.result() == pytest.approx(
            {
                "loss": 0.0,
                "a_mae": mae["a"],
                "b_mae": mae["b"],
                "b_sum": (Y + 2 * P).mean(),
            },
            rel=1e-5,
        )


def total(labels, predictions):
    return labels + predictions


def test_results_that_are_vectors_or_dicts_get_names():
    class Both(keras.metrics.Mean):
        def update_state(self, labels, predictions, sample_weight=None):
            super().update_state(predictions)

        def result(self):
            return {"x": super().result(), "y": tf.constant([1.0, 2.0])}

    made = MetricSet({"both": Both()})
    assert made.result() == {
        "loss": 0.0,
        "both_x": 0.0,
        "both_y_0": 1.0,
        "both_y_1": 2.0,
    }


def test_the_metric_of_early_stopping_must_be_there():
    made = MetricSet(metrics())
    # A vector's parts are known by their numbers.
    for name in ("", "loss", "auc", "near", "f1_0"):
        made.require(name)
    with pytest.raises(ConfigError, match=r"one of auc, f1, loss.*'accuracy'"):
        made.require("accuracy")


def test_wrong_use():
    with pytest.raises(ConfigError, match=r"returns a dict.*Received: list"):
        MetricSet([keras.metrics.AUC()])
    with pytest.raises(ConfigError, match="Received: x of type int"):
        MetricSet({"x": 3})
    with pytest.raises(ConfigError, match="Received: metric 'loss'"):
        MetricSet({"loss": keras.metrics.Mean()})
    with pytest.raises(ConfigError, match=r"Received: states of \['auc'\]"):
        MetricSet(None).result_from({"auc": []})


class Largest(keras.metrics.Metric):
    """A state that is no sum."""

    def __init__(self):
        super().__init__(name="largest")
        self.most = self.add_weight(name="most", initializer="zeros")

    def update_state(self, labels, predictions, sample_weight=None):
        most = tf.maximum(self.most, tf.reduce_max(predictions))
        self.most.assign(most)

    def result(self):
        return self.most


class Above(keras.metrics.Metric):
    """A state that is a sum, of a class without get_config."""

    def __init__(self, threshold):
        super().__init__(name="above")
        self.threshold = threshold
        self.count = self.add_weight(name="count", initializer="zeros")

    def update_state(self, labels, predictions, sample_weight=None):
        above = tf.cast(predictions > self.threshold, tf.float32)
        self.count.assign_add(tf.reduce_sum(above))

    def result(self):
        return self.count


def test_a_state_that_is_no_sum_is_refused():
    made = MetricSet({"most": Largest()})
    assert made.must_be_tried
    with pytest.raises(ConfigError, match=r"'most' is not\. Received: most of"):
        made.try_out(tf.constant(Y), tf.constant(P))


def test_metrics_forget_what_they_were_tried_on():
    made = MetricSet({"above": Above(0.5), "f1": keras.metrics.F1Score()})
    assert made.must_be_tried
    made.try_out(tf.constant(Y), tf.constant(P))
    assert made.result()["above"] == 0
    # Built, so that states of another worker have a place.
    assert all(len(arrays) for arrays in made.state().values())


def test_keras_metrics_that_are_built_need_no_try():
    assert not MetricSet({"auc": keras.metrics.AUC()}).must_be_tried
