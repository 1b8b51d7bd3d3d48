"""`elastic_keras snapshots`."""

import pytest

from elastic_keras.cli import main
from elastic_keras.master import state_file
from elastic_keras.snapshots.folder import SnapshotFolder
from tests.snapshots.test_folder import _take as take


@pytest.fixture
def job_dir(tmp_path):
    """Two snapshots; the newer one tells where in the data it was taken."""
    take(tmp_path, 7)
    tasks = {"epochs": [{"counts": {"records": 1200}}]}
    state_file.write(take(tmp_path, 12), {"flow": {"tasks": tasks}})
    return tmp_path


def test_list(job_dir, capsys):
    assert main(["snapshots", "list", str(job_dir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "step-000000007  step 7  1 shards" in lines[0]


def test_verify(job_dir, capsys):
    assert main(["snapshots", "verify", str(job_dir)]) == 0
    path = SnapshotFolder(job_dir).all()[0] / "part"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert main(["snapshots", "verify", str(job_dir)]) == 1
    lines = capsys.readouterr().out.splitlines()[2:]
    assert "bad: A file of a snapshot is corrupt" in lines[0]
    assert lines[1].endswith("good")


def test_show(job_dir, capsys):
    assert main(["snapshots", "show", str(job_dir)]) == 0
    out = capsys.readouterr().out
    assert "step-000000012  step 12, epoch 2" in out
    assert "table users: 3 rows of 2" in out
    assert "data position: 1,200 records" in out


@pytest.mark.parametrize(
    "words", [[], ["list"], ["burn", "x"], ["list", "a", "b"]]
)
def test_wrong_use(words, capsys):
    assert main(["snapshots", *words]) == 2
    assert "list|verify|show DIR" in capsys.readouterr().err


def test_no_snapshot(tmp_path, capsys):
    assert main(["snapshots", "list", str(tmp_path)]) == 2
    assert "There is no snapshot to read" in capsys.readouterr().err


def test_help(capsys):
    assert main(["snapshots", "--help"]) == 0
    assert "verify" in capsys.readouterr().out
    assert main(["scale", "--help"]) == 0
    assert "--num_workers" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [[], ["--num_workers=2"], ["x"]])
def test_scale_wants_a_job_and_a_number(flags, capsys):
    assert main(["scale", *flags]) == 2
    assert "Name a running job" in capsys.readouterr().err
