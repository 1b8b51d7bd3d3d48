"""Finding, importing and checking model-zoo modules."""

import pathlib
import subprocess
import sys
import textwrap

import keras
import pytest
import tensorflow as tf

from elastic_keras.config import ConfigError, ModelOptions
from elastic_keras.data.reader import Metadata
from elastic_keras.zoo.errors import UserCodeError, is_users, user_traceback
from elastic_keras.zoo.location import locate
from elastic_keras.zoo.modes import Mode
from elastic_keras.zoo.module import ZooModule, load

_MODULE = """
import keras

def custom_model(dim=2, act="relu"):
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(dim, act)])

def loss(labels, predictions):
    return keras.losses.mean_squared_error(labels, predictions)

def optimizer():
    return keras.optimizers.SGD(0.1)

def dataset_fn(dataset, mode, metadata):
    return dataset.map(lambda x: (x, mode == "training"))
"""


def _write(folder: pathlib.Path, name: str, *texts: str) -> pathlib.Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(textwrap.dedent, texts)))
    return path


def _load(folder: pathlib.Path, *texts: str, **options) -> ZooModule:
    _write(folder, "mine.py", *texts)
    return load(
        ModelOptions(model_zoo=str(folder), model_def="mine", **options)
    )


def test_a_whole_module(tmp_path):
    zoo = _load(tmp_path, _MODULE, model_params="dim=5")
    assert zoo.custom_model().output_shape == (None, 5)
    assert isinstance(zoo.optimizer(), keras.optimizers.SGD)
    assert float(zoo.loss(tf.ones([1, 2]), tf.zeros([1, 2]))[0]) == 1.0
    raw = tf.data.Dataset.from_tensors("a")
    ((_, training),) = zoo.dataset_fn(raw, Mode.TRAINING, Metadata())
    assert bool(training)
    assert zoo.eval_metrics_fn() == {}
    assert zoo.callbacks() == []
    assert not zoo.has_callbacks
    assert zoo.prediction_outputs_processor() is None
    assert zoo.custom_data_reader is None


def test_feed_and_the_optional_names(tmp_path):
    zoo = _load(
        tmp_path,
        _MODULE.replace("def dataset_fn", "def feed"),
        """
        import keras

        def eval_metrics_fn():
            return {
                "auc": keras.metrics.AUC(),
                "out": {"mse": lambda labels, predictions: 0.0},
            }

        def callbacks():
            return [keras.callbacks.TerminateOnNaN()]

        class PredictionOutputsProcessor:
            def process(self, predictions, worker_id):
                return len(predictions)

        def custom_data_reader(data_origin, records_per_task, **kw):
            return None
        """,
    )
    assert set(zoo.eval_metrics_fn()) == {"auc", "out"}
    assert zoo.has_callbacks
    assert isinstance(zoo.callbacks()[0], keras.callbacks.TerminateOnNaN)
    assert zoo.prediction_outputs_processor().process([1, 2], 0) == 2
    assert zoo.custom_data_reader is not None


@pytest.mark.parametrize(
    "model_def",
    [
        "family.model",
        "family.model.custom_model",
        "family.model.Subclass",
        "family/model.py",
    ],
)
def test_ways_to_name_a_module(tmp_path, monkeypatch, model_def):
    _write(
        tmp_path,
        "zoo/family/model.py",
        _MODULE,
        """
        from . import sibling
        from ..shared import SHARED
        class Subclass(keras.Model):
            def call(self, x):
                return x
        """
        if not model_def.endswith(".py")
        else "from . import sibling",
    )
    _write(tmp_path, "zoo/family/sibling.py", "X = 1")
    _write(tmp_path, "zoo/shared.py", "SHARED = 2")
    monkeypatch.setattr(sys, "path", list(sys.path))
    zoo = load(
        ModelOptions(model_zoo=str(tmp_path / "zoo"), model_def=model_def)
    )
    kind = "Subclass" if model_def.endswith("Subclass") else "Sequential"
    assert type(zoo.custom_model()).__name__ == kind


def test_a_path_without_a_zoo_and_plain_imports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    _write(tmp_path, "some/where.py", _MODULE, "import my_sibling_of_where")
    _write(tmp_path, "some/my_sibling_of_where.py", "X = 1")
    zoo = load(ModelOptions(model_def="some/where.py"))
    assert isinstance(zoo.custom_model(), keras.Model)


def test_two_zoos_with_the_same_names(tmp_path):
    for name in ("a", "b"):
        _write(tmp_path, f"{name}/same.py", _MODULE, f"NAME = {name!r}")
    for name in ("a", "b", "a"):
        zoo = load(
            ModelOptions(model_zoo=str(tmp_path / name), model_def="same")
        )
        assert name == zoo.custom_model.__self__._module.NAME


def test_a_changed_module_is_read_again(tmp_path):
    _load(tmp_path, _MODULE)
    with pytest.raises(ConfigError, match="'loss'"):
        _load(tmp_path, _MODULE.replace("def loss", "def cost"))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def loss", "def losss", "must define 'loss'. Is it meant by"),
        ("def custom_model", "def model", "must define 'custom_model'"),
        ("def dataset_fn", "def data", "must define 'dataset_fn'"),
        ("def optimizer", "def optimiser", "Is it meant by 'optimiser'"),
        ("def loss(labels, predictions)", "def loss(x)", "labels, predictio"),
        ("def dataset_fn(dataset, ", "def dataset_fn(", "(dataset, mode, met"),
        ("def optimizer()", "def optimizer(rate)", "must take no arguments"),
    ],
)
def test_broken_contracts(tmp_path, old, new, words):
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, _MODULE.replace(old, new))
    assert words in str(caught.value)
    assert "Received: " in str(caught.value)
    assert str(tmp_path / "mine.py") in str(caught.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("loss = 'mse'", "loss must be a function"),
        ("loss = {}", "loss must be a function"),
        ("loss = {'a': 'mse'}", "loss must be a function"),
        ("loss = [None, keras.losses.MeanSquaredError]", "not a class"),
        ("loss = keras.losses.MeanSquaredError", "not a class"),
        ("optimizer = keras.optimizers.SGD()", "optimizer must be a function"),
        ("callbacks = []", "callbacks must be a function"),
        ("def custom_data_reader(x): pass", "data_origin, records_per_task"),
    ],
)
def test_names_of_a_wrong_kind(tmp_path, more, words):
    with pytest.raises(ConfigError, match=words):
        _load(tmp_path, _MODULE, more)


@pytest.mark.parametrize("losses", ["{'a': mse, 'b': loss}", "[None, mse]"])
def test_a_loss_per_output(tmp_path, losses):
    more = f"mse = keras.losses.MeanSquaredError()\nloss = {losses}"
    loss = _load(tmp_path, _MODULE, more).loss
    assert isinstance(loss, dict | list)


@pytest.mark.parametrize(
    ("more", "method", "words"),
    [
        ("def custom_model(): return 3", "custom_model", "a keras.Model"),
        ("def optimizer(): return 'sgd'", "optimizer", "keras.optimizers"),
        ("def eval_metrics_fn(): return [1]", "eval_metrics_fn", "a dict of"),
        (
            "def eval_metrics_fn(): return {'a': {'b': {'c': len}}}",
            "eval_metrics_fn",
            "a dict of",
        ),
        (
            "def eval_metrics_fn(): return {'a': keras.metrics.AUC}",
            "eval_metrics_fn",
            "a dict of",
        ),
        ("def callbacks(): return [3]", "callbacks", "a list of"),
        (
            "prediction_outputs_processor = 3",
            "prediction_outputs_processor",
            "a method process",
        ),
    ],
)
def test_functions_that_return_the_wrong_thing(tmp_path, more, method, words):
    zoo = _load(tmp_path, _MODULE, more)
    with pytest.raises(ConfigError, match=words):
        getattr(zoo, method)()


def test_params_that_custom_model_does_not_take(tmp_path):
    with pytest.raises(ConfigError, match="unexpected keyword argument 'dimm'"):
        _load(tmp_path, _MODULE, model_params="dimm=5")


def test_a_job_without_training_needs_no_optimizer(tmp_path):
    _write(tmp_path, "mine.py", _MODULE.replace("def optimizer", "def other"))
    options = ModelOptions(model_zoo=str(tmp_path), model_def="mine")
    assert load(options, training=False).custom_model() is not None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "Name a module with --model_def"),
        ({"model_def": "no.such"}, "No such module in the current folder"),
        ({"model_def": "no/such.py"}, "No such file"),
        ({"model_def": "..a"}, "No such module"),
        ({"model_def": "a", "model_zoo": "no-such"}, "No such folder"),
    ],
)
def test_modules_that_are_not_there(tmp_path, monkeypatch, options, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=words):
        load(ModelOptions(**options))


def test_an_exception_while_importing(tmp_path):
    with pytest.raises(UserCodeError) as caught:
        _load(tmp_path, "def f():\n    return 1 / 0\n\nf()")
    text = caught.value.traceback_text
    assert text.startswith("Traceback (most recent call last):")
    assert text.strip().endswith("ZeroDivisionError: division by zero")
    assert text.count("File ") == text.count("mine.py") == 2
    assert "importlib" not in text


def test_a_syntax_error(tmp_path):
    with pytest.raises(UserCodeError) as caught:
        _load(tmp_path, "def f(:\n    pass")
    header, place, line, caret, error = caught.value.traceback_text.splitlines()
    assert header == "Traceback (most recent call last):"
    assert place.endswith('mine.py", line 1')
    assert line.strip() == "def f(:"
    assert caret.strip().startswith("^")
    assert error.startswith("SyntaxError: ")


def test_a_syntax_error_of_a_module_that_it_imports(tmp_path):
    _write(tmp_path, "broken_part.py", "x = (")
    with pytest.raises(UserCodeError) as caught:
        _load(tmp_path, "import broken_part")
    text = caught.value.traceback_text
    assert "import broken_part" in text
    assert 'broken_part.py", line 1' in text
    assert "importlib" not in text


def test_an_exit_of_the_module_is_an_exception(tmp_path):
    with pytest.raises(UserCodeError, match="SystemExit: 3"):
        _load(tmp_path, "raise SystemExit(3)")
    zoo = _load(
        tmp_path,
        _MODULE,
        """
        def custom_model():
            raise SystemExit(3)
        """,
    )
    with pytest.raises(UserCodeError, match="custom_model raised") as caught:
        zoo.custom_model()
    assert "in custom_model" in caught.value.traceback_text


def test_an_exception_of_the_module_shows_its_frames_only(tmp_path):
    zoo = _load(
        tmp_path,
        _MODULE,
        """
        def dataset_fn(dataset, mode, metadata):
            return dataset.map(_parse)

        def _parse(line):
            raise KeyError("mine")
        """,
    )
    with pytest.raises(UserCodeError, match="dataset_fn raised") as caught:
        zoo.dataset_fn(tf.data.Dataset.range(3), "training", Metadata())
    text = caught.value.traceback_text
    assert "in dataset_fn" in text
    assert "elastic_keras/zoo" not in text
    assert "site-packages" not in text
    assert user_traceback(caught.value) == text


def test_causes_are_shown_too():
    try:
        try:
            int("x")
        except ValueError as error:
            raise RuntimeError("second") from error
    except RuntimeError as error:
        text = user_traceback(error)
    assert "invalid literal" in text
    assert "direct cause" in text
    assert "RuntimeError: second" in text


def test_names_are_found_without_running_the_module(tmp_path):
    _write(
        tmp_path,
        "mine.py",
        """
        from x import y as custom_data_reader
        dim: int = 8
        raise ValueError
        """,
    )
    location = locate(ModelOptions(model_zoo=str(tmp_path), model_def="mine"))
    assert location.defines("custom_data_reader")
    assert location.own_names() == {"dim"}
    assert not location.defines("loss")


def test_whose_file_it_is():
    assert is_users("/home/me/zoo/mine.py")
    assert is_users("/home/me/elastic_keras/mine.py")
    assert not is_users("/home/me/.venv/bin/elastic_keras")
    assert not is_users(locate.__code__.co_filename)


def test_modes_are_strings():
    assert Mode.TRAINING == "training"
    assert Mode("prediction") is Mode.PREDICTION


def test_importing_the_zoo_needs_no_tensorflow():
    code = (
        "import sys, elastic_keras.zoo.module, elastic_keras.zoo.modes; "
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_arguments_of_the_model_may_have_any_name(tmp_path):
    text = _MODULE.replace("(dim=2, ", "(name, function, self, dim=2, ")
    params = 'name="a"; function=1; self=2'
    made = _load(tmp_path, text, model_params=params)
    assert made.custom_model() is not None
