"""The census module on lines as the Adult files hold them."""

import pathlib

import tensorflow as tf

from elastic_keras.config import DataOptions, ModelOptions
from elastic_keras.data.pipeline import BatchPipeline
from elastic_keras.data.reader import open_reader
from elastic_keras.zoo.module import load

_ZOO = pathlib.Path(__file__).parents[2] / "model_zoo"
_TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, \
Not-in-family, White, Male, 2174, 0, 40, United-States, <=50K
52, ?, 209642, HS-grad, 9, Married-civ-spouse, ?, Husband, White, Male, 0, \
0, 45, United-States, >50K

"""
_TEST = "|1x3 Cross validator\n" + _TRAIN.replace("50K\n", "50K.\n")


def _batch(path, text, name):
    (path / name).write_text(text)
    zoo = load(ModelOptions(model_zoo=str(_ZOO), model_def="census.wide_deep"))
    reader = open_reader(str(path / name), DataOptions())
    pipeline = BatchPipeline(zoo.dataset_fn, "evaluation", reader.metadata, 8)
    (batch,) = [
        batch
        for record_range in reader.ranges(100)
        for batch in pipeline(reader.dataset(record_range)[0])
    ]
    return zoo, batch


def test_both_files_read_alike(tmp_path):
    _, (features, labels, _) = _batch(tmp_path, _TRAIN, "adult.data")
    assert labels.numpy().tolist() == [[0.0], [1.0]]
    assert features["numbers"].shape == (2, 5)
    assert abs(float(features["numbers"][0, 0]) - (39 - 38.6) / 13.7) < 1e-5
    assert float(features["numbers"][0, 2]) > 2
    # "?" of two features: two rows.
    missing = features["deep_ids"].numpy()[1]
    assert len(set(missing.tolist())) == 8
    assert features["wide_ids"].shape == (2, 12)
    _, (others, their_labels, _) = _batch(tmp_path, _TEST, "adult.test")
    assert their_labels.numpy().tolist() == labels.numpy().tolist()
    for name, values in features.items():
        assert others[name].numpy().tolist() == values.numpy().tolist()


def test_the_model_takes_a_batch(tmp_path):
    zoo, (features, labels, _) = _batch(tmp_path, _TRAIN, "adult.data")
    model = zoo.custom_model()
    assert model(features).shape == labels.shape
    assert float(tf.reduce_mean(zoo.loss(labels, model(features)))) > 0
    assert set(zoo.eval_metrics_fn()) == {"auc", "accuracy"}
