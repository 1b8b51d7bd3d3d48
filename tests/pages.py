"""The code blocks of a Markdown page, for tests that run them."""

import contextlib
import dataclasses
import io
import pathlib
import re
import shlex

from elastic_keras import cli
from elastic_keras.config import all_options

ROOT = pathlib.Path(__file__).parents[1]
README = ROOT / "README.md"
_BLOCK = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block.

    Args:
        place: The page and the line at which the block begins.
        language: The first word behind the fence, or nothing.
        words: The words after it.
        text: What stands in the block.
    """

    place: str
    language: str
    words: tuple[str, ...]
    text: str

    @property
    def file(self) -> str:
        """The file that the block is, by `file=NAME`; empty for none."""
        return self._value("file")

    @property
    def exit_code(self) -> int:
        """How the block's commands end, by `exit=CODE`."""
        return int(self._value("exit") or 0)

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command of a shell block."""
        lines = self.text.replace("\\\n", "").splitlines()
        parts = [shlex.split(line, comments=True) for line in lines]
        return [part for part in parts if part]

    def _value(self, name: str) -> str:
        pairs = dict(word.split("=", 1) for word in self.words if "=" in word)
        return pairs.get(name, "")


def read_blocks(page: pathlib.Path, language: str | None = None) -> list[Block]:
    """Returns the code blocks of a page, in order.

    Args:
        page: The Markdown file.
        language: Leaves out the blocks in any other.
    """
    text = page.read_text()
    found = []
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        name, *words = match[1].split() or [""]
        place = f"{page.relative_to(ROOT)}:{line}"
        found.append(Block(place, name, tuple(words), match[2]))
    return [b for b in found if language is None or b.language == language]


def known_flags() -> set[str]:
    """Returns every flag's name: of jobs, of other commands, of scripts."""
    known = {field.name for _, field in all_options()}
    # absl's way to turn a boolean flag off.
    known |= {
        f"no{field.name}"
        for _, field in all_options()
        if isinstance(field.default, bool)
    }
    for script in (ROOT / "scripts").glob("*.py"):
        text = script.read_text()
        known.update(re.findall(r'flags\.DEFINE_\w+\(\s*"(\w+)"', text))
        known.update(re.findall(r'add_argument\(\s*"--([a-z_]+)"', text))
    for command in ("status", "inspect", "scale"):
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            assert cli.main([command, "--help"]) == 0
        known.update(
            re.findall(r"^  --(?:\[no\])?([a-z_]+)", text.getvalue(), re.M)
        )
    return known
