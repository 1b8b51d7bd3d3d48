import json
import math

import pytest

from elastic_keras.master import result
from elastic_keras.wire.proto import ps_pb2


def test_a_result_is_strict_json_and_leaves_nothing_behind(tmp_path):
    result.write(
        str(tmp_path), {"a": [1.5, math.nan], "b": {"c": math.inf}, "d": "x"}
    )
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]

    def refuse(constant):
        raise AssertionError(constant)

    text = (tmp_path / "result.json").read_text()
    assert json.loads(text, parse_constant=refuse) == {
        "a": [1.5, None],
        "b": {"c": None},
        "d": "x",
    }


def test_an_unwritable_directory_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="missing"):
        result.write(str(tmp_path / "missing"), {})


def test_shards():
    status = ps_pb2.ShardStatus(
        shard=0,
        rows=3,
        bytes=40,
        version=7,
        iterations=6,
        tables=[ps_pb2.TableStatus(name="t", rows=3, bytes=30)],
    )
    (shard,) = result.shard_results([status])
    assert shard["rows"] == 3
    assert shard["bytes"] == 40
    assert shard["version"] == 7
    assert shard["tables"] == {"t": {"rows": 3, "bytes": 30}}


def test_restarts_are_the_launchers_or_what_the_master_saw(tmp_path):
    folder = str(tmp_path)
    none = {"worker": 2, "ps": 0, "master": 0}
    assert result.restarts(folder, 2) == none
    path = tmp_path / "restarts.json"
    path.write_text('{"worker": 3, "ps": 1}')
    assert result.restarts(folder, 2) == {"worker": 3, "ps": 1, "master": 0}
    assert result.restarts(folder, 4)["worker"] == 4
    path.write_text('{"worker"')
    assert result.restarts(folder, 2) == none
