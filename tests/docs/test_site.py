"""The documentation builds, and every link in it leads somewhere."""

import os
import re
import shlex
import subprocess
import sys

import pytest

from elastic_keras.config import all_options
from tests.pages import README, ROOT, read_blocks

_COMMAND = "sphinx-build -W docs build/docs"


@pytest.fixture(scope="module", name="site")
def _site(tmp_path_factory):
    """The built site, by the command that README gives."""
    (given,) = (
        command
        for block in read_blocks(README)
        for command in block.commands
        if command[0] == "sphinx-build"
    )
    assert given == shlex.split(_COMMAND)
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        # Elsewhere than in the checkout.
        [sys.executable, "-m", "sphinx", *given[1:-1], str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site):
    pages = {
        path.relative_to(ROOT / "docs").with_suffix(".html")
        for path in (ROOT / "docs").rglob("*.md")
    }
    assert {path for path in pages if not (site / path).exists()} == set()


def test_every_flag_is_listed(site):
    text = (site / "reference" / "flags.html").read_text()
    missing = {
        field.name
        for _, field in all_options()
        if f'id="flag-{field.name}"' not in text
    }
    assert missing == set()


def test_the_public_names_have_their_docstrings(site):
    text = (site / "reference" / "api.html").read_text()
    for name in ("train", "Result", "PSModel", "layers.Embedding", "Mode"):
        assert f'id="elastic_keras.{name}"' in text
    assert "Wrong use is told before anything is started" in text


def test_external_links_are_well_formed():
    for page in (README, *(ROOT / "docs").rglob("*.md")):
        for link in re.findall(r"\]\((\w+:[^)]*)\)", page.read_text()):
            assert re.fullmatch(r"https://[\w.-]+\.\w+(/\S*)?", link), link


def test_links_of_the_readme():
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README.read_text()):
        assert (ROOT / link).exists(), link


def test_a_link_that_leads_nowhere_fails(tmp_path):
    (tmp_path / "conf.py").write_text((ROOT / "docs/conf.py").read_text())
    lines = ("# Title", "[a](no_1.md)", "[a](#no-2)", "![a](no_3.png)")
    (tmp_path / "index.md").write_text("\n\n".join(lines) + "\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "-W", "--keep-going"),
            *("-D", "extensions=myst_parser", "-D", "html_theme=basic"),
            *(str(tmp_path), str(tmp_path / "built")),
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    for name in ("no_1.md", "no-2", "no_3.png"):
        assert name in done.stderr
