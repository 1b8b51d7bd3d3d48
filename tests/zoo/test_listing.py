"""What is found in a zoo's folder without running anything of it."""

import pathlib
import subprocess
import sys
import textwrap

import pytest

from elastic_keras.config import ConfigError
from elastic_keras.zoo.listing import Entry, find_modules

_REST = "loss = optimizer = dataset_fn = 0\n"
_MODULE = f'"""What it does.\n\nMore."""\n{_REST}def custom_model(): pass\n'


@pytest.fixture
def write(tmp_path):
    """Writes a file of the zoo; returns the zoo's folder."""

    def write(name, text=_MODULE):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return str(tmp_path)

    return write


def _names(folder):
    return [entry.name for entry in find_modules(folder)]


def test_modules_and_no_helpers(write):
    write("b/two.py")
    write("one.py")
    write("pack/__init__.py")
    write("other-name/three.py")
    write("helpers.py", "def dataset_fn(): pass\n")
    write(".hidden/four.py")
    write("__pycache__/five.py")
    write("venv/pyvenv.cfg", "")
    folder = write("venv/lib/six.py")
    assert _names(folder) == ["one", "b.two", "other-name/three.py", "pack"]
    assert find_modules(folder)[0] == Entry("one", "What it does.")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def custom_model(:\n", "line 1: "),
        ("custom_model = 1\n", "does not define loss, optimizer, dataset_fn"),
        (f"import no_such_thing.inside\n{_MODULE}", "no module 'no_such_thing"),
        (f"from .helper import x\n{_MODULE}", "line 1: no module '.helper'"),
        (f"from ..helper import x\n{_MODULE}", "no module '..helper'"),
        ("\0", "null bytes"),
    ],
)
def test_broken_modules(write, text, error):
    (entry,) = find_modules(write("a/mine.py", text))
    assert entry.name == "a.mine"
    assert error in entry.error
    assert "\n" not in entry.error


@pytest.mark.parametrize(
    "text",
    [
        f"import os.path, keras, helper\nfrom .near import x\n{_MODULE}",
        f"from ..helper import x\nfrom a.near import y\n{_MODULE}",
        f"from zoo.a import near\n{_MODULE}",
        "from .near import *\nfrom ..helper import loss, optimizer\n",
        "from .near import custom_model, loss, optimizer, dataset_fn as feed\n",
    ],
)
def test_imports_that_a_job_finds(write, tmp_path, text):
    write("zoo/helper.py", "")
    write("zoo/a/near.py", "")
    write("zoo/a/mine.py", text)
    (entry,) = find_modules(str(tmp_path / "zoo"))
    assert (entry.name, entry.error) == ("a.mine", "")


def test_a_model_subclass_in_place_of_custom_model(write):
    folder = write("mine.py", f"{_REST}class Mine(keras.Model): pass\n")
    assert find_modules(folder) == [Entry("mine.Mine")]
    folder = write("mine.py", f"{_REST}class Mine(keras.layers.Layer): pass\n")
    assert find_modules(folder)[0].error == "does not define custom_model"


def test_the_format_of_the_data(write):
    folder = write("a/mine.py")
    write(
        "a/README.md",
        """
        # `mine.py` in a heading

        ```
        run `mine.py`
        ```

        * `mine.py` reads lines of
          three numbers:

        | `mine.py` | a table |
        """,
    )
    (entry,) = find_modules(folder)
    assert entry.data == "`mine.py` reads lines of three numbers."


def test_no_folder_and_no_modules(tmp_path):
    with pytest.raises(ConfigError, match=r"zoo init NAME\. Received: model_z"):
        find_modules(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="No model-zoo module in this folder"):
        find_modules(str(tmp_path))


def test_the_zoo_of_this_project():
    zoo = pathlib.Path(__file__).parents[2] / "model_zoo"
    entries = {entry.name: entry for entry in find_modules(str(zoo))}
    assert {"census.wide_deep", "criteo.deepfm"} <= set(entries)
    assert not any(entry.error for entry in entries.values())
    assert all(entry.summary and entry.data for entry in entries.values())
    assert "criteo.make_data" not in entries


def test_nothing_is_run(write):
    folder = write("mine.py", f"{_MODULE}raise SystemExit\n")
    code = (
        "import sys; from elastic_keras.zoo.listing import find_modules; "
        "assert not find_modules(sys.argv[1])[0].error; "
        "assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, folder], check=True)
