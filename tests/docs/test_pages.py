"""Every command and every example of the documentation, run in order."""

import doctest
import importlib
import re

import pytest

from tests.docs.reader import Reader, run_examples
from tests.pages import ROOT, known_flags, read_blocks

# All of the tutorial is in one fixture: several jobs, one after another.
pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(600)]

_DOCS = ROOT / "docs"
_TUTORIAL = _DOCS / "tutorial.md"
_PAGES = sorted(_DOCS.rglob("*.md"))
_WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "elastic_keras").rglob("*.py")
    if ">>> " in path.read_text()
)
# What stands at the beginning of a command.
_COMMAND = re.compile(
    r"^\$? *(elastic_keras|python|pip|tensorboard|curl|bash|\./)\b(?!:)", re.M
)
# Flags of other programs, and one that a page shows as wrong.
_OTHER_FLAGS = {"help", "logdir", "flagfile", "minibatch"}


def _name(page):
    return str(page.relative_to(_DOCS))


@pytest.fixture(scope="module", name="reader")
def _reader(tmp_path_factory):
    """Someone who has followed the tutorial to its end."""
    reader = Reader(tmp_path_factory.mktemp("docs"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        reader.follow(read_blocks(_TUTORIAL), monkeypatch)
    return reader


def test_the_tutorial_leaves_what_it_promises(reader):
    result = reader.folder / "runs" / "clicks" / "result.json"
    assert '"status": "succeeded"' in result.read_text()
    assert (reader.folder / "exports" / "clicks" / "model.keras").exists()


@pytest.mark.parametrize(
    "page", [page for page in _PAGES if page != _TUTORIAL], ids=_name
)
def test_page(page, reader, monkeypatch):
    reader.follow(read_blocks(page), monkeypatch)


@pytest.mark.parametrize("page", _PAGES, ids=_name)
def test_no_command_is_hidden(page):
    text = page.read_text()
    blocks = read_blocks(page)
    # A fence that `read_blocks` does not see would be run by nobody.
    assert text.count("```") == 2 * len(blocks)
    for block in blocks:
        if block.language == "text":
            assert not _COMMAND.search(block.text), block.place


@pytest.mark.parametrize("page", _PAGES, ids=_name)
def test_no_flag_is_made_up(page):
    text = page.read_text()
    if page.parent.name == "migration":
        # The first column holds the flags of another system.
        text = re.sub(r"^\|[^|]*\|", "|", text, flags=re.M)
    named = set(re.findall(r"--([a-z][a-z_]+)", text))
    assert named - known_flags() <= _OTHER_FLAGS


@pytest.mark.parametrize("name", _WITH_EXAMPLES)
def test_examples_of_docstrings(name, reader, monkeypatch):
    monkeypatch.chdir(reader.folder)
    module = importlib.import_module(name)
    found = doctest.DocTestFinder(exclude_empty=True).find(module)
    with_examples = [each for each in found if each.examples]
    assert with_examples
    for each in with_examples:
        run_examples(each.docstring, {}, each.name)
