"""How Sphinx builds the documentation.

sphinx-build -W docs build/docs
"""

import pathlib
import sys

_ROOT = pathlib.Path(__file__).parents[1]
# The flags and docstrings of this checkout, whatever else is installed.
sys.path[:0] = [str(_ROOT), str(_ROOT / "docs" / "extensions")]

from elastic_keras import __version__  # noqa: E402 - needs the path above

project = "elastic_keras"
release = __version__
extensions = [
    "flag_tables",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]

# A reference that leads nowhere is a warning, and -W makes those errors.
nitpicky = True
nitpick_ignore_regex = [
    # What Raises names beside our own exceptions.
    ("py:exc", "[A-Z][A-Za-z]+(Error|Interrupt)"),
]
# Anchors of headings, as on GitHub, so that links to them work in both.
myst_heading_anchors = 3

# Docstrings mark code as Markdown does.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "none"

html_theme = "furo"
html_show_copyright = False
html_title = f"elastic_keras {release}"
exclude_patterns = ["extensions"]
