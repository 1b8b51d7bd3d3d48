"""Modules that are tried on one batch: what is found, and where."""

import pathlib

import pytest

from elastic_keras.checking.check import check
from elastic_keras.checking.first_look import find_mistakes
from elastic_keras.config import ConfigError, JobConfig
from elastic_keras.zoo.errors import UserCodeError

# The lines of its names are numbered in messages.
_MODULE = """\
import keras
import tensorflow as tf
import elastic_keras as ek

def custom_model(dim=2):
    ids = keras.Input((), dtype="int64", name="id")
    rows = ek.layers.Embedding(dim, name="rows")(ids)
    score = keras.layers.Dense(1, name="score")(rows)
    return keras.Model({"id": ids}, score)

loss = keras.losses.MeanSquaredError()

def optimizer():
    return keras.optimizers.SGD(0.1)

def dataset_fn(dataset, mode, metadata):
    def parse(line):
        fields = tf.io.decode_csv(line, [tf.constant(0, tf.int64), 0.0])
        return {"id": fields[0]}, fields[1][None]
    return dataset.map(parse)

def eval_metrics_fn():
    return {"mae": keras.metrics.MeanAbsoluteError()}
"""
_DATA = "".join(f"{n % 7},{n / 10}\n" for n in range(20))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Checks a module that differs from a good one in some texts."""
    monkeypatch.chdir(tmp_path)

    def run(*changes, data=_DATA, **options):
        text = _MODULE
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        pathlib.Path("mine.py").write_text(text)
        pathlib.Path("some.csv").write_text(data)
        options.setdefault("training_data", "some.csv")
        config = JobConfig.from_options(
            model_def="mine.py", minibatch_size=8, **options
        )
        find_mistakes(config)
        lines = []
        check(config, say=lambda text: lines.extend(text.splitlines()))
        return lines, capsys.readouterr().err

    return run


def test_a_good_module(run):
    lines, warnings = run(model_params="dim=3", csv_header=False)
    told = "\n".join(lines)
    assert "custom_model (line 5), loss (line 11)" in told
    assert "size 8" in told
    assert "features['id'] int64 (8,)" in told
    assert "labels float32 (8, 1), 0 to 0.7" in told
    assert (
        "rows: width 3, uniform(-0.05, 0.05), sgd(0.1); ids 8, unique 7" in told
    )
    assert "2 parameters, 4 numbers, 16 bytes, sgd(0.1)" in told
    # Training and evaluation saw the same records, rows and parameters.
    loss = told.partition("train     loss ")[2].split()[0]
    assert f"evaluate  loss {loss}, mae 0." in told
    assert "predictions float32 (8, 1)" in told
    assert lines[-1] == (
        "mine.py is ready: elastic_keras train --model_def=mine.py "
        "--model_params=dim=3 --training_data=some.csv --minibatch_size=8"
    )
    assert warnings == ""


def test_modes_have_data_of_their_own(run):
    pathlib.Path("other.csv").write_text("1,2.0\n" * 5)
    lines, _ = run(validation_data="other.csv", prediction_data="other.csv")
    assert "predictions float32 (5, 1)" in "\n".join(lines)
    assert lines[-1].endswith(
        "--training_data=some.csv --validation_data=other.csv "
        "--minibatch_size=8"
    )


def test_without_data_the_contract_is_checked(run):
    lines, _ = run(training_data="")
    assert lines[-1] == (
        "The contract is kept. To try the module on a batch: elastic_keras "
        "zoo check --model_def=mine.py --training_data=FILES"
    )
    _, warnings = run(("eval_metrics_fn", "eval_metric_fn"), training_data="")
    assert "Is 'eval_metrics_fn' meant?" in warnings
    with pytest.raises(ConfigError, match=r"^mine\.py:13 \(optimizer\): opti"):
        run(("keras.optimizers.SGD(0.1)", "'sgd'"), training_data="")
    with pytest.raises(ConfigError, match="--prediction_data needs --train"):
        run(training_data="", prediction_data="some.csv")


_LOSS = "loss = keras.losses.MeanSquaredError()"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (_LOSS, "", "must define 'loss'"),
        (
            _LOSS,
            "loss = keras.losses.MeanSquaredError",
            r"^mine\.py:11 \(loss\): loss must be a function or a loss object",
        ),
        (
            "dataset, mode, metadata",
            "dataset",
            r"^mine\.py:16 \(dataset_fn\): dataset_fn must take",
        ),
        (
            "return dataset.map(parse)",
            "return dataset.map(parse).take(0)",
            r"^mine\.py:16 \(dataset_fn\): dataset_fn made no batch",
        ),
        (
            "return dataset.map(parse)",
            "return dataset.map(parse).take(5 if mode == 'training' else 0)",
            r"^mine\.py:16 \(dataset_fn\): dataset_fn made no batch of the "
            r"first 20 records\. Received: 'some\.csv'",
        ),
        (
            'keras.Input((), dtype="int64", name="id")',
            'keras.Input((2, 2), dtype="int64", name="id")',
            r"mine\.py:5 \(custom_model\), .*do not fit together",
        ),
        (
            "keras.optimizers.SGD(0.1)",
            "keras.optimizers.Lamb()",
            r"^mine\.py:5 \(custom_model\), mine\.py:13 \(optimizer\)",
        ),
        (
            _LOSS,
            "loss = {'other': keras.losses.MeanSquaredError()}",
            r"^mine\.py:11 \(loss\), .* Received: output 'other'",
        ),
        (
            "fields[1][None]",
            "tf.math.log(-1.0 - fields[1])[None]",
            r"(?s)^mine\.py:11 \(loss\).*loss=nan, NaN or infinity in labels$",
        ),
        (
            _LOSS,
            "def loss(labels, predictions):\n"
            "    return tf.reduce_mean(tf.sqrt(0.0 * predictions))",
            r"^mine\.py:11 \(loss\), .*A gradient of the first batch",
        ),
        (
            '{"mae": keras.metrics.MeanAbsoluteError()}',
            "{'loss': keras.metrics.MeanAbsoluteError()}",
            r"^mine\.py:11 \(loss\), mine\.py:22 \(eval_metrics_fn\)",
        ),
    ],
)
def test_wrong_use_names_lines(run, old, new, message):
    with pytest.raises(ConfigError, match=message):
        run((old, new))


def test_a_record_that_cannot_be_parsed(run):
    with pytest.raises(ConfigError, match=r"parse it.*some\.csv, record 0"):
        run(data="id,label\n1,2.0\n")
    lines, _ = run(data="id,label\n1,2.0\n", csv_header=True)
    assert lines[-1].endswith("--csv_header --minibatch_size=8")


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("import keras\n", "import keras\n1 / 0\n", 2),
        ("    ids = keras", "    1 / 0\n    ids = keras", 6),
        ("    def parse", "    1 / 0\n    def parse", 17),
        ("        fields =", "        1 / 0\n        fields =", 18),
        (
            "    return dataset.map(parse)",
            "    mode == 'prediction' and 1 / 0\n    return dataset.map(parse)",
            20,
        ),
        (_LOSS, "def loss(labels, predictions):\n    return 1 / 0", 12),
    ],
)
def test_the_modules_own_exception(run, old, new, line):
    with pytest.raises(UserCodeError) as caught:
        run((old, new))
    text = caught.value.traceback_text
    assert f'mine.py", line {line}' in text
    assert "ZeroDivisionError" in text
    assert "elastic_keras/" not in text


_MODEL = 'rows = ek.layers.Embedding(dim, name="rows")(ids)'


@pytest.mark.parametrize(
    ("changes", "options", "warning"),
    [
        (
            [("eval_metrics_fn", "eval_metric_fn")],
            {},
            "Is 'eval_metrics_fn' meant?",
        ),
        (
            [("def eval_metrics_fn", "def _unused")],
            {},
            "Without eval_metrics_fn an evaluation shows the loss alone",
        ),
        (
            [
                (
                    _MODEL,
                    "rows = keras.layers.Embedding(9, dim, name='rows')\n"
                    "    rows.trainable = False\n"
                    "    rows = rows(ids)",
                )
            ],
            {"embedding_threshold_bytes": 0},
            "Received: layer 'rows'; it is frozen",
        ),
        (
            [
                ("fields[1][None]", "fields[1]"),
                (
                    _LOSS,
                    "def loss(labels, predictions):\n"
                    "    return tf.reduce_mean((labels - predictions) ** 2)",
                ),
            ],
            {},
            "labels of shape (8,), predictions of shape (8, 1)",
        ),
        (
            [("MeanSquaredError()", "BinaryCrossentropy()")],
            {},
            "BinaryCrossentropy takes probabilities",
        ),
        (
            [
                ("MeanSquaredError()", "BinaryCrossentropy()"),
                ("Dense(1, ", "Dense(1, 'sigmoid', "),
                ("fields[1][None]", "fields[1][None] * 100"),
            ],
            {},
            "the right column for them? Received: labels from 0 to 70",
        ),
        (
            [
                (
                    _LOSS,
                    "loss = [keras.losses.MeanSquaredError(), "
                    "keras.losses.binary_crossentropy]",
                ),
                (
                    'return keras.Model({"id": ids}, score)',
                    "return keras.Model({'id': ids}, [score, keras.layers."
                    "Dense(1, 'sigmoid', name='more')(score)])",
                ),
                ('{"mae": keras.metrics.MeanAbsoluteError()}', "{}"),
                ("fields[1][None]", "(fields[1][None], fields[1][None] - 1)"),
            ],
            {},
            "for them? Received: labels[1] from -1 to -0.3",
        ),
        (
            [
                (
                    "MeanSquaredError()",
                    "BinaryCrossentropy(from_logits=True)",
                ),
                ("Dense(1, ", "Dense(1, 'sigmoid', "),
            ],
            {},
            "BinaryCrossentropy(from_logits=True) takes no probabilities",
        ),
        (
            [
                (
                    'return keras.Model({"id": ids}, score)',
                    "return keras.Model({'id': ids}, [score, keras.layers."
                    "Dense(1, name='more')(rows)])",
                ),
                (_LOSS, "loss = [keras.losses.MeanSquaredError(), None]"),
                ('{"mae": keras.metrics.MeanAbsoluteError()}', "{}"),
                ("fields[1][None]", "[fields[1][None], fields[1][None]]"),
            ],
            {},
            "The loss does not depend on all dense parameters",
        ),
        (
            [('{"id": fields[0]}', '{"id": 0 * fields[0] + 5}')],
            {},
            "Received: 8 times id 5 in table 'rows'",
        ),
    ],
)
def test_what_will_be_regretted(run, changes, options, warning):
    lines, warnings = run(*changes, **options)
    assert warning in warnings
    assert "is ready: " in lines[-1]
    for line in warnings.splitlines():
        assert line.startswith("elastic_keras: warning: ")
        assert "Received: " in line


def test_labels_of_a_binary_cross_entropy_that_are_right(run):
    _, warnings = run(
        ("MeanSquaredError()", "BinaryCrossentropy()"),
        ("Dense(1, ", "Dense(1, 'sigmoid', "),
    )
    assert warnings == ""
