"""SavedModels, called where elastic_keras is not installed."""

import json

import numpy as np
import pytest

from elastic_keras.exports.saved_model import write_saved_model
from elastic_keras.worker.batches import as_tensors
from elastic_keras.worker.exported_model import ExportedModel
from tests.exports import cases
from tests.exports.stand_ins import restored, without_elastic_keras

SERVE = """
import tensorflow as tf
loaded = tf.saved_model.load(path)
signature = loaded.signatures["serving_default"]
outputs = signature(**{name: tf.constant(v) for name, v in given.items()})
result = {name: value.numpy() for name, value in outputs.items()}
"""


def served(trained, tmp_path):
    """Exports and calls the SavedModel on the features; returns outputs."""
    told = write_saved_model(restored(trained), tmp_path)
    result = without_elastic_keras(
        SERVE,
        folder=str(tmp_path),
        path=str(tmp_path / "saved_model"),
        **cases.named(trained.features),
    )
    return told, result


@pytest.mark.parametrize("name", cases.NAMES)
def test_answers_as_the_worker_predicts(name, tmp_path):
    case = cases.CASES[name]
    trained = case.train(tmp_path)
    told, result = served(trained, tmp_path)
    assert told["outputs"].keys() == result.keys()
    np.testing.assert_allclose(
        next(iter(result.values())), trained.predictions, rtol=0, atol=1e-6
    )
    # As another job's worker loads it.
    said = {"formats": {"saved_model": told}}
    (tmp_path / "export.json").write_text(json.dumps(said))
    again = ExportedModel(tmp_path)(as_tensors(trained.features))
    np.testing.assert_allclose(again, trained.predictions, rtol=0, atol=1e-6)
