"""A directive that lists every flag, from the options themselves."""

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from elastic_keras.config import GROUPS, all_options
from elastic_keras.help_text import JOB_COMMANDS, flag_head, flag_text


class FlagTables(Directive):
    """A section for each group of options; no arguments, no content."""

    def run(self) -> list[nodes.Node]:
        """Returns the sections."""
        return [_section(group) for group in GROUPS]


def _section(group: str) -> nodes.section:
    (title,) = (GROUPS[group].__doc__ or "").splitlines()[:1]
    section = nodes.section(ids=[group], names=[group])
    section += nodes.title(text=title.removesuffix("."))
    listed = nodes.definition_list()
    for owner, field in all_options():
        if owner == group:
            listed += _item(field)
    section += listed
    return section


def _item(field: Any) -> nodes.definition_list_item:
    term = nodes.term(ids=[f"flag-{field.name}"])
    term += nodes.literal(text=flag_head(field))
    said = nodes.paragraph(text=f"{flag_text(field)} ")
    said += nodes.emphasis(text=f"{_commands(field.name)}.")
    return nodes.definition_list_item("", term, nodes.definition("", said))


def _commands(name: str) -> str:
    taken = [
        command
        for command in JOB_COMMANDS
        if any(field.name == name for _, field in all_options(command))
    ]
    return ", ".join(taken) or "zoo check"


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the directive; Sphinx calls it.

    Args:
        app: The application.
    """
    app.add_directive("flag-tables", FlagTables)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
