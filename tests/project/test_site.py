"""The documentation as a site: it has a place for each page and each public name."""

from __future__ import annotations

import pydoc
import re
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]

import panekeeper
from panekeeper import agg, testing
from tests.project.sources import ROOT, blocks_of
from tools.site_links import on_page_markdown

DOCS = ROOT / "docs"
MKDOCS = ROOT / "mkdocs.yml"


_LISTED_ELSEWHERE = {"decisions", "monitoring"}
"""Folders of which docs/README.md lists the pages."""


PAGE = SimpleNamespace(file=SimpleNamespace(src_uri="windows.md"))
CONFIG = SimpleNamespace(docs_dir=str(DOCS), repo_url="https://example.org/repo")


def pages_of(entry: Any) -> list[str]:
    """The pages that a part of the navigation leads to."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in pages_of(part)]


def test_the_navigation_has_each_page_once() -> None:
    """A page that nobody is led to is not read."""
    led_to = pages_of(yaml.safe_load(MKDOCS.read_text(encoding="utf-8"))["nav"])
    there = [path.relative_to(DOCS) for path in (*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb"))]
    assert sorted(led_to) == sorted(path.as_posix() for path in there if path.parts[0] not in _LISTED_ELSEWHERE)


def reference() -> dict[str, list[str]]:
    """What the reference describes, by dotted name, and which members of it."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    found = re.findall(r"^::: ([\w.]+)\n(?:    options:\n      members: \[(.*)\]\n)?", text, re.MULTILINE)
    assert len(found) == text.count(":::")
    return {name: members.split(", ") if members else [] for name, members in found}


def test_the_reference_has_each_public_name() -> None:
    """Those of the package, of `agg`, and of `panekeeper.testing`."""
    names = {name.rpartition(".")[2] for name in reference()}
    assert {*panekeeper.__all__, *agg.__all__, *testing.__all__} - names == {"agg", "__version__"}


def test_the_reference_has_the_members_that_it_names_and_no_page_has_all() -> None:
    """What a class has for the rest of Panekeeper, such as `declaration`, is not of the reference."""
    assert re.search("^ +members: false", MKDOCS.read_text(encoding="utf-8"), re.MULTILINE)
    for name, members in reference().items():
        assert [one for one in members if not hasattr(pydoc.locate(name), one)] == [], name
        assert [one for one in members if one == "declaration" or one.endswith("_us")] == [], name


def test_each_block_of_a_page_has_a_language_that_the_site_shows() -> None:
    """Another one, such as that of a diagram, stands there as plain text."""
    languages = {block.language for page in DOCS.rglob("*.md") for block in blocks_of(page)} - {""}
    assert "python" in languages
    for language in languages:
        get_lexer_by_name(language)


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("session window", "windows.md"),
        ("early firing", "early-results.md"),
        ("allowed lateness", "late-data.md"),
        ("unit test", "test-your-windows.md"),
        ("groupBy", "from-groupby-window.md"),
        ("missing result", "missing-results.md"),
        ("kubernetes", "platforms.md"),
        ("duplicates", "duplicates.md"),
    ],
)
def test_what_a_reader_searches_for_is_in_a_title_of_its_page(words: str, page: str) -> None:
    """The search of the site ranks titles first."""
    titles = re.findall(r"^#+ (.*)$", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert any(all(word in title.lower() for word in words.lower().split()) for title in titles)


@pytest.mark.parametrize(
    ("link", "leads_to"),
    [
        ("windows.md#session-windows", "windows.md#session-windows"),
        ("../examples/sessions.py", "https://example.org/repo/blob/main/examples/sessions.py"),
        ("../examples", "https://example.org/repo/tree/main/examples"),
        ("https://example.org/other", "https://example.org/other"),
    ],
)
def test_a_link_out_of_the_docs_leads_to_the_repository(link: str, leads_to: str) -> None:
    """Others stay as they are."""
    assert on_page_markdown(f"[x]({link})", page=PAGE, config=CONFIG, files=None) == f"[x]({leads_to})"


def test_a_picture_stays_one_behind_a_bracket_that_is_open() -> None:
    """As in an interval, `[start, end)`: the site has a copy of the picture."""
    text = "Panes `[0, 10)`:\n\n![drawn](pictures/session.svg)"
    assert on_page_markdown(text, page=PAGE, config=CONFIG, files=None) == text
