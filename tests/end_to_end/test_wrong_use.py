"""Wrong use of every kind: what is said, and the exit code."""

import pathlib

import pytest

import elastic_keras
from tests.end_to_end.wrong_use import CASES, Bench

pytestmark = pytest.mark.end_to_end

_OURS = str(pathlib.Path(elastic_keras.__file__).parent)


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Where the cases run."""
    made = Bench(tmp_path_factory.mktemp("wrong_use"))
    yield made
    made.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_wrong_use(bench, case):
    done = bench.run(case)
    told = f"{done.err}\n{done.logs}"
    assert done.code == case.code, told
    for message in bench.messages(case):
        assert message in done.err, told
    # Theirs may be shown, ours never.
    assert _OURS not in done.err
    assert done.err.count("Traceback") == ("Traceback" in case.messages)
    if case.code == 2:
        assert done.err.startswith("elastic_keras: error: ")
        assert len(done.err.splitlines()) <= 3
        assert "Received:" in done.err
