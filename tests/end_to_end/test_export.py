"""Trained, exported, loaded elsewhere: the same numbers as `predict`."""

import dataclasses
import inspect
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

import elastic_keras as ek
from elastic_keras.config import ModelOptions
from elastic_keras.data.reader import Metadata
from elastic_keras.zoo.module import load
from tests.end_to_end.harness import ZOO, elastic_keras, train, write_clicks
from tests.exports.stand_ins import without_elastic_keras

pytestmark = pytest.mark.end_to_end

_ROOT = pathlib.Path(__file__).parents[2]
_DATA = pathlib.Path(
    os.environ.get("EK_TEST_DATA", _ROOT.parent / "shared" / "data")
)
_BOTH = """
import keras
import tensorflow as tf
loaded = tf.saved_model.load(f"{path}/saved_model")
signature = loaded.signatures["serving_default"]
outputs = signature(**{name: tf.constant(v) for name, v in given.items()})
result["saved_model"] = next(iter(outputs.values())).numpy()
exec(classes)
model = keras.saving.load_model(
    f"{path}/model.keras", {k: v for k, v in list(globals().items())
                            if isinstance(v, type)})
result["keras"] = model.predict(given, batch_size=1000, verbose=0)
"""


@dataclasses.dataclass(frozen=True)
class Family:
    """A module with real data.

    Args:
        zoo: Its zoo.
        module: Its name.
        training: Files to train on, below the data's folder.
        prediction: Files to predict on.
        flags: Flags of train.
        own: Names of the module's classes that its model is made of.
    """

    zoo: pathlib.Path
    module: str
    training: tuple[str, ...]
    prediction: tuple[str, ...]
    flags: tuple[str, ...] = ()
    own: tuple[str, ...] = ()


FAMILIES = {
    "deepfm": Family(
        _ROOT / "model_zoo",
        "criteo.deepfm",
        ("criteo_8k/train.tsv",),
        (
            "criteo_8k/dev.tsv",
            "criteo_8k/test.tsv",
            "criteo_8k/train.tsv",
            "criteo_8k/extra_1000_half_overlapping.tsv",
        ),
        own=("FactorizationMachine",),
    ),
    "wide_deep": Family(
        _ROOT / "model_zoo",
        "census.wide_deep",
        ("adult/adult.data",),
        ("adult/adult.test",),
        ("--data_format=text",),
    ),
    "towers": Family(
        ZOO,
        "stars",
        ("ml_latest_small/ratings.csv",),
        ("ml_latest_small/ratings.csv",),
        ("--csv_header", "--max_steps=150"),
        own=("Towers",),
    ),
}


def _features(family, paths):
    """Returns the features of all records, as the module makes them."""
    zoo = load(
        ModelOptions(model_zoo=str(family.zoo), model_def=family.module),
        training=False,
    )
    lines = [
        line
        for path in paths
        for line in pathlib.Path(path).read_text().splitlines()
    ]
    data = tf.data.Dataset.from_tensor_slices(lines)
    batches = zoo.dataset_fn(data, "prediction", Metadata(minibatch_size=512))
    parts = [batch[0] for batch in batches]
    single = "movie" in parts[0]
    join = np.stack if single else np.concatenate
    return {
        name: join([part[name].numpy() for part in parts]) for name in parts[0]
    }


def _classes(family):
    zoo = load(
        ModelOptions(model_zoo=str(family.zoo), model_def=family.module),
        training=False,
    )
    found = [getattr(zoo._module, name) for name in family.own]
    head = "from keras import layers, ops\n"
    return head + "\n".join(inspect.getsource(each) for each in found)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_both_exports_predict_as_the_job_does_on_real_data(name, tmp_path):
    if not _DATA.is_dir():
        pytest.skip(f"no real data in {_DATA}")
    family = FAMILIES[name]
    suffix = pathlib.Path(family.prediction[0]).suffix
    lines = [
        line
        for path in family.prediction
        for line in (_DATA / path).read_text().splitlines()
        if line and not line.startswith(("|", "userId"))
        # A file ends in the middle of a line.
        if suffix != ".tsv" or line.count("\t") == 39
    ][:10_000]
    rows = tmp_path / f"rows{suffix if suffix != '.test' else '.txt'}"
    rows.write_text("\n".join(lines) + "\n")
    done = elastic_keras(
        "train",
        f"--model_zoo={family.zoo}",
        f"--model_def={family.module}",
        "--training_data=" + ",".join(str(_DATA / p) for p in family.training),
        f"--job_dir={tmp_path / 'job'}",
        f"--output={tmp_path / 'out'}",
        "--minibatch_size=512",
        "--num_ps=2",
        *family.flags,
        job_dir=tmp_path / "job",
    )
    assert done.code == 0, done.err
    said = json.loads((tmp_path / "out" / "export.json").read_text())
    assert set(said["formats"]) == {"keras", "saved_model", "embeddings"}
    predictions = ek.predict(
        tmp_path / "job",
        prediction_data=rows,
        csv_header=False,
        progress="none",
    )
    result = without_elastic_keras(
        _BOTH,
        folder=str(tmp_path),
        path=str(tmp_path / "out"),
        classes=_classes(family),
        **_features(family, [rows]),
    )
    assert len(predictions) == len(lines)
    for kind in ("saved_model", "keras"):
        difference = np.abs(result[kind] - predictions).max()
        print(f"{name}: {len(lines)} rows, {kind}: {difference:.2g}")
        assert difference <= 1e-6 * max(1.0, np.abs(predictions).max())


@pytest.fixture(scope="module")
def clicks(tmp_path_factory):
    """A job directory, its training exported as well."""
    folder = tmp_path_factory.mktemp("clicks")
    write_clicks(folder / "train.csv", 300, seed=1)
    write_clicks(folder / "validation.csv", 100, seed=2)
    done = train(
        folder / "job",
        f"--training_data={folder}/train.csv",
        f"--validation_data={folder}/validation.csv",
        f"--output={folder}/out",
        "--formats=embeddings,saved_model",
        "--num_ps=2",
    )
    done.succeeded()
    assert f"exported step {done.result['steps']} (" in done.out
    return folder


def test_training_exports_what_was_evaluated(clicks):
    result = json.loads((clicks / "job" / "result.json").read_text())
    said = json.loads((clicks / "out" / "export.json").read_text())
    assert said["step"] == result["steps"]
    assert said["evaluation"] == result["evaluations"][-1]
    assert said["evaluation"]["values"] == result["evaluation"]
    assert not (clicks / "out" / "model.keras").exists()
    assert said["tables"][0]["rows"] == 40
    # What the model says of the validation data has that very AUC.
    rows = (clicks / "validation.csv").read_text().splitlines()
    labels, ids, x = np.array([row.split(",") for row in rows]).T
    served = without_elastic_keras(
        "import keras, tensorflow as tf\n"
        "model = tf.saved_model.load(path)\n"
        "auc = keras.metrics.AUC(from_logits=True)\n"
        "out = model.serve({'id': tf.constant(given['id']),"
        " 'x': tf.constant(given['x'])})\n"
        "auc.update_state(given['labels'], out)\n"
        "result['auc'] = auc.result()\n",
        folder=str(clicks),
        path=str(clicks / "out" / "saved_model"),
        id=ids.astype(np.int64),
        x=x.astype(np.float32)[:, None],
        labels=labels.astype(np.float32)[:, None],
    )
    assert abs(served["auc"] - result["evaluation"]["auc"]) < 1e-6


def test_from_python(clicks, capfd):
    said = ek.export(
        clicks / "job", output=clicks / "again", formats=["embeddings"]
    )
    assert list(said["formats"]) == ["embeddings"]
    assert "exported step" in capfd.readouterr().out
    with pytest.raises(ek.ConfigError, match="a new or an empty folder"):
        ek.export(clicks / "job", output=clicks / "again")


def test_a_raising_model_ends_with_its_traceback(clicks, tmp_path):
    module = tmp_path / "raising.py"
    module.write_text(
        "from clicks import *\ndef custom_model(dim=4):\n    return 1 // 0\n"
    )
    (tmp_path / "clicks.py").write_text((ZOO / "clicks.py").read_text())
    done = elastic_keras(
        "export",
        f"--job_dir={clicks}/job",
        f"--output={tmp_path}/out",
        "--model_zoo=",
        f"--model_def={module}",
        job_dir=clicks / "job",
    )
    assert done.code == 1
    assert done.err.startswith("Traceback (most recent call last):")
    assert "ZeroDivisionError" in done.err
    assert "elastic_keras/" not in done.err
    assert not (tmp_path / "out").exists()


def test_an_interrupted_export_leaves_nothing(clicks):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "elastic_keras.cli",
            "export",
            f"--job_dir={clicks}/job",
            f"--output={clicks}/stopped",
        ]
    )
    deadline = time.monotonic() + 60
    while not list(clicks.glob(".stopped.*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert not [path for path in clicks.iterdir() if "stopped" in path.name]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--output={new}", "--formats=onnx"), "--formats takes some of"),
        (("--output={old}",), "a new or an empty folder"),
        ((), "Name a new folder for the export with --output"),
        (("--output={new}", "--num_ps=2"), "Unknown flag."),
        (("--output={new}", "--model_params=dim=8"), "another model than"),
        (("--output={new}", "--model_params=x=8"), "does not fit custom_model"),
        (("--output={new}", "--restore_from=/no"), "No such folder"),
    ],
)
def test_wrong_use(clicks, flags, said):
    places = {"new": clicks / "new", "old": clicks / "out"}
    done = elastic_keras(
        "export",
        f"--job_dir={clicks}/job",
        *(flag.format(**places) for flag in flags),
        job_dir=clicks / "job",
    )
    assert done.code == 2
    assert said in done.err
    assert len(done.err.splitlines()) <= 2
    assert not (clicks / "new").exists()


def test_a_training_that_could_not_be_exported_does_not_start(clicks):
    done = train(
        clicks / "other",
        f"--training_data={clicks}/train.csv",
        f"--output={clicks}/out",
    )
    assert done.code == 2
    assert "a new or an empty folder" in done.err
    assert not (clicks / "other").exists()
