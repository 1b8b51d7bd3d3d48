"""Kinds of wrong use, with the message and the exit code of each.

`scripts/wrong_use.py` prints them; a test asserts them.
"""

import dataclasses
import pathlib
import shutil
import socket

from tests.end_to_end.harness import ZOO, Finished, elastic_keras, write_clicks


@dataclasses.dataclass(frozen=True)
class Case:
    """One kind of wrong use.

    Args:
        name: What is wrong.
        code: The exit code.
        messages: Parts of what stderr must say.
        flags: Flags of train that do it; they win.
        module: Source that replaces names of a good module.
        command: All arguments, instead of those of train.
    """

    name: str
    code: int
    messages: tuple[str, ...]
    flags: tuple[str, ...] = ()
    module: str = ""
    command: tuple[str, ...] | None = None


_KERAS = "import keras\nimport tensorflow as tf\nimport elastic_keras as ek\n"
_SMALL_EMBEDDING = f"""{_KERAS}
def custom_model():
    ids = keras.Input((), dtype='int64', name='id')
    x = keras.Input((1,), name='x')
    row = keras.layers.Embedding(20, 4, name='taste')(ids)
    row = keras.layers.Concatenate()([row, x])
    return keras.Model({{'id': ids, 'x': x}}, keras.layers.Dense(1)(row))
"""

CASES = (
    Case(
        "unknown command",
        2,
        ("Unknown command. Did you mean train?", "Received: trian"),
        command=("trian",),
    ),
    Case(
        "unknown flag",
        2,
        ("Unknown flag. Did you mean --num_workers?",),
        flags=("--num_worker=2",),
    ),
    Case(
        "text for a number",
        2,
        ("--num_ps takes a whole number", "num_ps='many'"),
        flags=("--num_ps=many",),
    ),
    Case(
        "bad max_staleness",
        2,
        ("--max_staleness takes a value of at least 0", "max_staleness=-1"),
        flags=("--max_staleness=-1",),
    ),
    Case(
        "unknown policy",
        2,
        ("wait, recompute, dampen, unbounded", "staleness_policy='hope'"),
        flags=("--staleness_policy=hope",),
    ),
    Case(
        "missing module",
        2,
        ("No such module", "model_def='nothing'"),
        flags=("--model_def=nothing",),
    ),
    Case(
        "missing training file",
        2,
        ("nowhere.csv",),
        flags=("--training_data={folder}/nowhere.csv",),
    ),
    Case(
        "missing validation file",
        2,
        ("No such file. Received: validation_data=", "nowhere.csv"),
        flags=("--validation_data={folder}/nowhere.csv",),
    ),
    Case(
        "folder as data",
        2,
        ("A folder is not data; name its files",),
        flags=("--training_data={folder}",),
    ),
    Case(
        "zero records",
        2,
        ("record", "empty.csv"),
        flags=("--training_data={folder}/empty.csv",),
    ),
    Case(
        "broken record",
        2,
        ("broken.csv",),
        flags=("--training_data={folder}/broken.csv",),
    ),
    Case(
        "header without csv_header",
        2,
        ("dataset_fn cannot parse it", "header.csv, record 0", "--csv_header"),
        flags=("--training_data={folder}/header.csv",),
    ),
    Case(
        "record that cannot be parsed",
        2,
        ("dataset_fn cannot parse it", "text.csv, record 70, byte "),
        flags=("--training_data={folder}/text.csv",),
    ),
    Case(
        "unwritable directory",
        2,
        ("The job directory cannot be written: Not a directory",),
        flags=("--job_dir={folder}/train.csv/job",),
    ),
    Case(
        "directory of another job",
        2,
        ("The job directory holds another job already",),
        flags=("--job_dir={folder}",),
    ),
    Case(
        "port taken",
        2,
        ("Port {port} cannot be used: Address already in use",),
        flags=("--transport=tcp", "--port={port}"),
    ),
    Case("module without loss", 2, ("loss",), module="del loss\n"),
    Case(
        "module without custom_model",
        2,
        ("custom_model",),
        module="del custom_model\n",
    ),
    Case(
        "malformed model_params",
        2,
        ("dim=",),
        flags=("--model_params=dim=",),
    ),
    Case(
        "unknown model_params",
        2,
        ("width",),
        flags=("--model_params=width=3",),
    ),
    Case(
        "unsupported optimizer",
        2,
        ("Adafactor", "Adagrad", "Ftrl"),
        module=f"{_KERAS}"
        "def optimizer():\n"
        "    return keras.optimizers.Adafactor()\n",
    ),
    Case(
        "custom constraint",
        2,
        ("Halved", "NonNeg"),
        module=f"{_KERAS}"
        "class Halved(keras.constraints.Constraint):\n"
        "    def __call__(self, w):\n"
        "        return w / 2\n"
        "def custom_model():\n"
        "    x = keras.Input((1,), name='x')\n"
        "    y = keras.layers.Dense(1, kernel_constraint=Halved())(x)\n"
        "    return keras.Model({'x': x}, y)\n",
    ),
    Case(
        "wrong label shape",
        2,
        ("do not fit together", "(None, 3)"),
        module=f"{_KERAS}"
        "good = dataset_fn\n"
        "def dataset_fn(dataset, mode, metadata):\n"
        "    return good(dataset, mode, metadata).map(\n"
        "        lambda x, y: (x, tf.repeat(y, 3)))\n",
    ),
    Case(
        "id outside input_dim of a table",
        2,
        ("The embedding taste takes ids from 0 to 19", "input_dim=20"),
        flags=("--embedding_threshold_bytes=0",),
        module=_SMALL_EMBEDDING,
    ),
    Case(
        "id outside input_dim",
        2,
        ("takes ids from 0 to 19", "taste"),
        module=_SMALL_EMBEDDING,
    ),
    Case(
        "missing feature",
        2,
        ("'id'",),
        module=f"{_KERAS}"
        "good = dataset_fn\n"
        "def dataset_fn(dataset, mode, metadata):\n"
        "    return good(dataset, mode, metadata).map(\n"
        "        lambda x, y: ({'x': x['x']}, y))\n",
    ),
    Case(
        "dataset_fn without a dataset",
        2,
        ("dataset_fn", "tf.data.Dataset"),
        module="def dataset_fn(dataset, mode, metadata):\n    return None\n",
    ),
    Case(
        "raising dataset_fn",
        1,
        ("Traceback", "in dataset_fn", "KeyError: 'my own mistake'"),
        module="def dataset_fn(dataset, mode, metadata):\n"
        "    raise KeyError('my own mistake')\n",
    ),
    Case(
        "raising metric",
        1,
        ("Traceback", "in mine", "ZeroDivisionError"),
        module="def mine(labels, predictions):\n"
        "    return labels / (1 // 0)\n"
        "def eval_metrics_fn():\n"
        "    return {'mine': mine}\n",
    ),
    Case(
        "raising import",
        1,
        ("Traceback", "ModuleNotFoundError", "no_such_package"),
        module="import no_such_package\n",
    ),
    Case(
        "unknown early stopping metric",
        2,
        ("--early_stopping_metric takes one of", "'auk'"),
        flags=("--early_stopping_metric=auk", "--early_stopping_patience=2"),
    ),
    Case(
        "unknown table for the projector",
        2,
        ("its tables: taste", "projector_tables='tastes'"),
        flags=("--projector_tables=tastes",),
    ),
    Case(
        "NaN loss",
        1,
        ("NaN",),
        module=f"{_KERAS}"
        "def loss(labels, predictions):\n"
        "    return predictions * float('nan')\n",
    ),
)


class Bench:
    """A folder with a zoo, data and a taken port, to run cases in.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        self._taken = socket.socket()
        self._taken.bind(("127.0.0.1", 0))
        self._taken.listen()
        shutil.copy(ZOO / "clicks.py", folder)
        write_clicks(folder / "train.csv", 96)
        write_clicks(folder / "validation.csv", 32)
        lines = (folder / "train.csv").read_text()
        (folder / "header.csv").write_text(f"label,id,x\n{lines}")
        mended = lines.splitlines(keepends=True)
        (folder / "text.csv").write_text(
            "".join([*mended[:70], "1,two,0.5\n", *mended[70:]])
        )
        (folder / "empty.csv").write_text("")
        (folder / "broken.csv").write_text('1,2,0.5\n0,"3,0.5\n')

    def run(self, case: Case) -> Finished:
        """Runs a case and returns how it ended."""
        name = "".join(c if c.isalnum() else "_" for c in case.name)
        source = f"from clicks import *\n{case.module}"
        (self._folder / f"{name}.py").write_text(source)
        job_dir = self._folder / "jobs" / name
        places = {
            "folder": self._folder,
            "port": self._taken.getsockname()[1],
        }
        arguments = case.command or (
            "train",
            f"--model_zoo={self._folder}",
            f"--model_def={name}",
            f"--training_data={self._folder}/train.csv",
            f"--validation_data={self._folder}/validation.csv",
            f"--job_dir={job_dir}",
            "--minibatch_size=16",
            "--progress=none",
            *(flag.format(**places) for flag in case.flags),
        )
        return elastic_keras(*arguments, job_dir=job_dir)

    def messages(self, case: Case) -> list[str]:
        """Returns what a case's stderr must hold."""
        port = str(self._taken.getsockname()[1])
        return [part.replace("{port}", port) for part in case.messages]

    def close(self) -> None:
        """Frees the port."""
        self._taken.close()
