"""`elastic_keras inspect` on made-up snapshots."""

import json
import subprocess
import sys

import numpy as np
import pytest

from elastic_keras import cli
from tests.inspecting.stand_ins import table, take

_IDS = np.arange(12)


@pytest.fixture
def run(capsys):
    """Runs the command; returns exit code, output and errors."""

    def run(*arguments):
        code = cli.main(["inspect", *map(str, arguments)])
        written = capsys.readouterr()
        return code, written.out, written.err

    return run


@pytest.fixture
def snapshot(tmp_path):
    """A snapshot of two tables, one of which counts updates."""
    rows = np.ones((12, 2), np.float32)
    rows[4] = [3, 0]
    rows[5, 0] = np.nan
    counted = {"momentum": rows, "count": np.arange(12, dtype=np.uint32)}
    return take(
        tmp_path,
        [
            (table("users", 2), _IDS, rows, counted),
            (table("items", 2, 1), _IDS, rows, {"accumulator": rows}),
        ],
        dense=np.array([1, 2], np.float32),
        optimizers=("adam", "adagrad"),
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            "Name a job directory or a snapshot, e.g. elastic_keras inspect "
            "runs/deepfm. Received: path=''",
        ),
        (["nowhere"], "No such folder. Received: 'nowhere'"),
        (
            ["x", "--neighbours=3"],
            "Name the id whose neighbours are wanted with --id. "
            "Received: neighbours=3",
        ),
        (
            ["x", "--id=1", "--neighbours=-3"],
            "--neighbours takes a value of at least 0. Received: neighbours=-3",
        ),
        (
            ["x", "--id=seven"],
            "--id takes a whole number of 64 bits. Received: id='seven'",
        ),
        (
            ["x", f"--id={1 << 63}"],
            f"--id takes a whole number of 64 bits. Received: id='{1 << 63}'",
        ),
        (
            ["x", "--tabel=a"],
            "Unknown flag. Did you mean --table? Received: --tabel; "
            "see elastic_keras inspect --help",
        ),
    ],
)
def test_wrong_use(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err == f"elastic_keras: error: {message}\n"


@pytest.mark.parametrize("arguments", [["--id=3"], ["--table=movies"]])
def test_tables_are_named(run, snapshot, arguments):
    code, _, err = run(snapshot.path, *arguments)
    assert code == 2
    assert "Name one of the tables users, items with --table." in err


def test_a_model_without_tables(run, tmp_path):
    take(tmp_path, [], dense=np.ones(3, np.float32))
    code, out, _ = run(tmp_path)
    assert code == 0
    assert "kernel" in out
    code, _, err = run(tmp_path, "--id=3")
    assert code == 2
    assert "The model has no tables. Received: table=''" in err


def test_the_whole_of_it(run, snapshot, tmp_path):
    code, out, err = run(tmp_path)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "step 7, epoch 2, shards 2" in text
    assert "table users: 12 rows of 2" in text
    assert "adam with count, momentum" in text
    assert "most updated ids 11 (11 times), 10 (10 times)" in text
    assert "adagrad keeps no count of a row's updates" in text
    assert "1 row, e.g. of 5; 1 row in slot momentum" in text
    assert "kernel 2 2.236 1 2 none" in text
    # The first line is a path, to be copied.
    path, *lines = out.splitlines()
    assert path == str(snapshot.path)
    assert max(map(len, lines)) <= 80
    assert run(snapshot.path)[1] == out
    code, out, _ = run(tmp_path, "--table=items")
    assert "items" in out
    assert "users" not in out
    assert "kernel" not in out


def test_json(run, snapshot):
    code, out, err = run(snapshot.path, "--json")
    assert (code, err) == (0, "")
    raw = json.loads(out)
    assert (raw["step"], raw["num_shards"]) == (7, 2)
    users, items = raw["tables"]
    assert users["most_updated"][0] == {"id": 11, "updates": 11}
    assert items["most_updated"] is None
    assert users["nonfinite_ids"] == [5]
    assert raw["dense"][0]["name"] == "kernel"


def test_an_id(run, snapshot):
    given = (snapshot.path, "--table=users", "--id=4", "--neighbours=2")
    code, out, err = run(*given)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "id 4 of table users" in text
    assert "row 3 0 norm 3 count 4 momentum 3 0" in text
    assert "neighbours 0 (0.707), 1 (0.707)" in text
    raw = json.loads(run(*given, "--json")[1])
    assert (raw["exists"], raw["row"]) == (True, [3, 0])
    assert [each["id"] for each in raw["neighbours"]] == [0, 1]
    code, out, _ = run(snapshot.path, "--table=users", "--id=-4")
    assert code == 0
    assert "none: no gradient for this id was applied" in out
    assert "initial value" in out
    assert "neighbours" not in out


def test_help(run, capsys):
    code, out, err = run("--help")
    assert (code, err) == (0, "")
    for text in ("--table=NAME", "--id=ID", "--neighbours=N", "--[no]json"):
        assert text in out
    assert max(map(len, out.splitlines())) <= 80
    assert cli.main(["help", "inspect"]) == 0
    assert capsys.readouterr().out == out


def test_it_needs_no_tensorflow(snapshot):
    code = (
        "import sys; from elastic_keras import cli; "
        f"assert cli.main(['inspect', {str(snapshot.path)!r}]) == 0; "
        "sys.exit(bool({'tensorflow', 'keras'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == 0
