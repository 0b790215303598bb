"""The documentation as a site: it has a place for each page and each public name."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

import panekeeper
from panekeeper import testing
from tests.project.sources import ROOT
from tools.site_links import on_page_markdown

DOCS = ROOT / "docs"


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
    led_to = pages_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    there = [path.relative_to(DOCS) for path in (*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb"))]
    assert sorted(led_to) == sorted(path.as_posix() for path in there if path.parts[0] not in _LISTED_ELSEWHERE)


def test_the_reference_has_each_public_name() -> None:
    """Those of the package and of `panekeeper.testing`; aggregates and errors come as whole modules."""
    shown = re.findall(
        r"^::: ([\w.]+)$", "\n".join(page.read_text() for page in (DOCS / "reference").glob("*.md")), re.MULTILINE
    )
    names = {name.rpartition(".")[2] for name in shown}
    modules = [name for name in shown if name.endswith((".errors", ".aggregates"))]
    others = [name for name in panekeeper.__all__ if name not in {*names, "agg", "Duration", "__version__"}]
    missing = [name for name in others if getattr(panekeeper, name).__module__ not in modules]
    assert missing == []
    assert set(testing.__all__) <= names


@pytest.mark.parametrize(
    ("link", "leads_to"),
    [
        ("windows.md#sessions", "windows.md#sessions"),
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
