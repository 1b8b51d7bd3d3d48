"""Names that look like those of the contract."""

import pytest

from elastic_keras.zoo.names import near_misses


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("eval_metrics", "eval_metrics_fn"),
        ("metrics_fn", "eval_metrics_fn"),
        ("callback", "callbacks"),
        ("data_reader", "custom_data_reader"),
        ("prediction_output_processor", "prediction_outputs_processor"),
    ],
)
def test_a_near_miss(written, meant):
    defined = {"custom_model", "loss", "dataset_fn", written}
    assert near_misses(defined) == {written: meant}
    # A helper of the real one.
    assert near_misses({*defined, meant}) == {}
    assert near_misses({f"_{written}"}) == {}


def test_others_are_none():
    names = "custom_model loss optimizer feed dataset_fn metrics feedback"
    assert near_misses(names.split()) == {}
    assert near_misses({"PredictionOutputsProcessor"}) == {}
