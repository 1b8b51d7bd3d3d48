import os

import pytest

from elastic_keras.config import ConfigError
from elastic_keras.exports.destination import (
    check_output,
    new_folder,
    read_formats,
)


def test_becomes_the_folder_at_the_end(tmp_path):
    path = tmp_path / "parent" / "out"
    with new_folder(str(path)) as place:
        (place / "file").write_text("x")
        assert not path.exists()
    assert os.listdir(path) == ["file"]
    assert os.listdir(path.parent) == ["out"]


def test_takes_the_place_of_an_empty_folder(tmp_path):
    with new_folder(str(tmp_path)) as place:
        (place / "file").write_text("x")
    assert os.listdir(tmp_path) == ["file"]


def write(path, then):
    """Writes an export and then does something else."""
    with new_folder(str(path)) as place:
        (place / "file").write_text("x")
        then()


def raising(error):
    """Returns a function that raises."""

    def then():
        raise error

    return then


@pytest.mark.parametrize("error", [KeyError, SystemExit, KeyboardInterrupt])
def test_leaves_nothing_behind(tmp_path, error):
    with pytest.raises(error):
        write(tmp_path / "out", raising(error))
    assert os.listdir(tmp_path) == []


def test_a_full_disk_is_said_in_a_line(tmp_path):
    full = OSError(28, "No space left on device")
    with pytest.raises(ConfigError, match="cannot be written: No space left"):
        write(tmp_path / "out", raising(full))


def test_refuses_what_is_there(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(ConfigError, match="a new or an empty folder"):
            check_output(str(path))


def test_refuses_what_comes_meanwhile(tmp_path):
    path = tmp_path / "out"

    def other():
        path.mkdir()
        (path / "other").write_text("x")

    with pytest.raises(ConfigError, match="new or an empty"):
        write(path, other)
    assert os.listdir(tmp_path) == ["out"]
    assert os.listdir(path) == ["other"]


def test_needs_a_name():
    with pytest.raises(ConfigError, match="--output"):
        check_output("")


def test_formats():
    assert read_formats(" saved_model,keras, keras") == ("keras", "saved_model")
    for wrong in ("", "onnx", "keras,onnx"):
        with pytest.raises(ConfigError, match="--formats takes some of"):
            read_formats(wrong)
