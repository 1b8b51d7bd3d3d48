import math

import pytest

from elastic_keras.config import ConfigError
from elastic_keras.master.early_stopping import EarlyStopping


def _stops_at(metric, patience, values):
    stopping = EarlyStopping(metric, patience)
    for number, value in enumerate(values):
        if stopping.update({"loss": value, "auc": value}):
            return number
    return None


def test_loss_is_to_fall_and_auc_to_rise():
    assert _stops_at("loss", 2, [3, 2, 1, 1.5, 1.2, 0]) == 4
    assert _stops_at("loss", 2, [3, 2, 1, 1.5, 0.9, 0]) is None
    assert _stops_at("auc", 2, [0.5, 0.6, 0.6, 0.55]) == 3
    assert _stops_at("auc", 1, [0.5, 0.6, 0.7, 0.8]) is None


def test_an_empty_name_is_the_loss_and_val_is_understood():
    assert _stops_at("", 1, [1, 2]) == 1
    assert _stops_at("val_auc", 1, [1, 2]) is None


@pytest.mark.parametrize(
    ("name", "larger"),
    [
        ("loss", False),
        ("mean_squared_error", False),
        ("accuracy", True),
        ("sparse_categorical_accuracy", True),
        ("AUC", True),
        ("precision_1", True),
        ("recall", True),
        ("log_loss", False),
    ],
)
def test_direction(name, larger):
    assert EarlyStopping(name, 1).larger_is_better is larger


def test_nan_is_no_improvement():
    assert _stops_at("loss", 1, [1.0, math.nan]) == 1
    assert _stops_at("auc", 2, [math.nan, math.nan, 1.0]) == 1


def test_an_unknown_metric_names_those_there_are():
    with pytest.raises(ConfigError, match=r"one of auc, loss.*'f1'"):
        EarlyStopping("f1", 1).update({"loss": 1.0, "auc": 0.5})
