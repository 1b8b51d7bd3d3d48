"""The Criteo modules and the planted data they can be tried with."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from elastic_keras.config import DataOptions, ModelOptions
from elastic_keras.data.pipeline import BatchPipeline
from elastic_keras.data.reader import Metadata, open_reader
from elastic_keras.zoo.module import load
from model_zoo.criteo import make_data

_ZOO = pathlib.Path(__file__).parents[2] / "model_zoo"
_LINE = "\t".join(["1", "3", "", "-2", *["0"] * 10, "", *["68fd1e64"] * 25])


def _zoo(name: str):
    return load(
        ModelOptions(
            model_zoo=str(_ZOO),
            model_def=f"criteo.{name}",
            model_params="dim=4; hidden=[8]",
        )
    )


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    make_data.make(str(folder), rows=3000, seed=1)
    return folder


def test_a_line_becomes_numbers_and_ids():
    pipeline = BatchPipeline(
        _zoo("deepfm").dataset_fn, "training", Metadata(), 2
    )
    raw = tf.data.Dataset.from_tensors(_LINE).repeat(3)
    first, second = pipeline(raw)
    features, label, _ = first
    assert pipeline.traced
    assert label.numpy().tolist() == [[1.0], [1.0]]
    np.testing.assert_allclose(
        features["numbers"][0], [np.log(4) / 4, -1, *[0] * 11], rtol=1e-6
    )
    ids = features["ids"].numpy()
    assert ids.shape == (2, 26)
    assert ids.dtype == np.int64
    assert ids.min() >= 0
    # Equal values of different features have different rows.
    assert len(set(ids[0].tolist())) == 26
    assert second[0]["ids"].shape == (1, 26)


@pytest.mark.parametrize("name", ["deepfm", "wide_deep"])
def test_models_train_on_a_batch(name, folder):
    zoo = _zoo(name)
    reader = open_reader(str(folder / "train.tsv"), DataOptions())
    dataset, _ = reader.dataset(reader.ranges(512)[0])
    pipeline = BatchPipeline(zoo.dataset_fn, "training", reader.metadata, 512)
    features, labels, _ = next(iter(pipeline(dataset)))
    model = zoo.custom_model()
    clicks = model(features)
    assert clicks.shape == labels.shape == (512, 1)
    assert 0 < float(keras.ops.min(clicks)) < float(keras.ops.max(clicks)) < 1
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(zoo.loss(labels, model(features)))
    gradients = tape.gradient(loss, model.trainable_variables)
    assert all(g is not None for g in gradients)
    assert isinstance(zoo.optimizer(), keras.optimizers.Adagrad)
    metric = zoo.eval_metrics_fn()["auc"]
    metric.update_state(labels, clicks)
    assert 0 < float(metric.result()) < 1


def test_files_have_criteos_format(folder):
    lines = (folder / "train.tsv").read_text().splitlines()
    assert len(lines) == 3000
    missing = 0
    for line in lines:
        columns = line.split("\t")
        assert len(columns) == 40
        assert columns[0] in ("0", "1")
        assert all(c == "" or c.isdigit() for c in columns[1:14])
        assert all(c == "" or int(c, 16) < 2**32 for c in columns[14:])
        assert all(len(c) in (0, 8) for c in columns[14:])
        missing += columns.count("")
    assert missing > len(lines)


def test_the_same_seed_makes_the_same_files(folder, tmp_path):
    make_data.make(str(tmp_path), rows=3000, seed=1)
    for name in ("train.tsv", "validation.tsv", "planted.json"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()
    make_data.make(str(tmp_path), rows=3000, seed=2)
    other = (tmp_path / "train.tsv").read_bytes()
    assert other != (folder / "train.tsv").read_bytes()


def test_the_planted_auc_is_that_of_the_truth(folder):
    planted = json.loads((folder / "planted.json").read_text())
    lines = (folder / "validation.tsv").read_text().splitlines()
    label = np.array([int(line[0]) for line in lines])
    assert planted["validation_rows"] == len(lines) == 10_000
    assert planted["positive_rate"] == label.mean()
    assert 0.75 < planted["best_auc"] < 0.9
    # Many draws of labels from the true probabilities: the AUC of the truth
    # scatters around the expected one, and noise on top makes it worse.
    rows = make_data.Planted(1).draw(40_000, np.random.default_rng(5))
    truth = make_data.auc(rows.label, rows.probability)
    assert abs(truth - planted["best_auc"]) < 0.02
    noise = np.random.default_rng(6).normal(size=len(rows.label))
    logit = np.log(rows.probability / (1 - rows.probability))
    assert make_data.auc(rows.label, logit + 0.5 * noise) < truth
    # Labels follow the probabilities: 4 standard errors.
    error = np.sqrt((rows.probability * (1 - rows.probability)).mean() / 40_000)
    assert abs(rows.label.mean() - rows.probability.mean()) < 4 * error


def test_auc_agrees_with_counting_pairs():
    random = np.random.default_rng(0)
    score = random.integers(0, 20, 200) / 7
    label = random.integers(0, 2, 200)
    positive, negative = score[label == 1], score[label == 0]
    above = (positive[:, None] > negative).mean()
    equal = (positive[:, None] == negative).mean()
    np.testing.assert_allclose(
        make_data.auc(label, score), above + equal / 2, rtol=1e-12
    )


def test_few_values_are_frequent_and_many_are_rare():
    rows = make_data.Planted(0).draw(20_000, np.random.default_rng(0))
    for feature, size in enumerate(make_data.VOCABULARY):
        values = rows.values[:, feature]
        known = values[values >= 0]
        counts = np.bincount(known, minlength=size)
        assert counts.max() == counts[:3].max()
        if size >= 40:
            assert counts[: size // 4].sum() > 0.7 * len(known)
