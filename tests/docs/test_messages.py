"""Messages that the pages quote are messages of the product."""

import ast
import re

from tests.pages import ROOT

_PAGE = ROOT / "docs" / "guides" / "troubleshooting.md"
_HOLE = "\0"


def _texts():
    """Returns every text in the package, with holes for what is filled in."""
    for path in (ROOT / "elastic_keras").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                yield "".join(
                    str(part.value) if isinstance(part, ast.Constant) else _HOLE
                    for part in node.values
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _quoted():
    """Returns the messages in the first columns of the page's tables."""
    rows = re.findall(r"^\| `([^`]+)`", _PAGE.read_text(), re.MULTILINE)
    return [row for row in rows if not row.startswith("-")]


def test_every_quoted_message_is_in_the_code():
    code = "\n".join(_texts())
    quoted = _quoted()
    assert len(quoted) > 20
    assert [message for message in quoted if message not in code] == []


def test_a_message_that_is_not_there_is_noticed():
    assert "The data hold too many records." not in "\n".join(_texts())
