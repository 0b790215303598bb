"""What is written about the project: every named path exists, every link leads somewhere."""

from __future__ import annotations

import re

from tests.project.sources import FOLDERS, MARKDOWN, ROOT, SOURCES, docstrings_of, name_of
from tools.site_links import anchor_of

OWN_FOLDERS = "|".join(
    folder for folder in (*FOLDERS, "docs", "tools") if folder != "panekeeper"
)  # also in checkpoints
PATH = re.compile(rf"(?<![\w./~<>-])(?:{OWN_FOLDERS})/(?:[\w.-]+/)*(?:[\w.-]+\.[a-z0-9]+\b)?")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
SECTION = re.compile(r"\]\((?!https?:)([\w./-]+\.md)?#([\w-]+)\)")
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def test_every_path_named_in_prose_exists() -> None:
    """Markdown and docstrings name files and folders by their path from the top; a moved file is renamed there too."""
    prose = {path: path.read_text(encoding="utf-8") for path in MARKDOWN}
    prose |= {path: docstrings_of(path) for path in SOURCES}
    gone = [
        (name_of(path), named)
        for path, text in prose.items()
        for named in PATH.findall(text)
        if not (ROOT / named).exists()
    ]
    assert gone == []


def test_every_link_between_pages_leads_somewhere() -> None:
    """Links in Markdown are relative to the page."""
    links = [(path, link) for path in MARKDOWN for link in LINK.findall(path.read_text(encoding="utf-8"))]
    assert [(name_of(path), link) for path, link in links if not (path.parent / link).exists()] == []


def test_every_link_to_a_section_leads_to_a_heading() -> None:
    """In the same page or another one; whoever renames a heading renames the links to it."""
    texts = {path.resolve(): path.read_text(encoding="utf-8") for path in MARKDOWN}
    headings = {path: {anchor_of(title) for title in HEADING.findall(text)} for path, text in texts.items()}
    links = [(path, page, anchor) for path, text in texts.items() for page, anchor in SECTION.findall(text)]
    assert len(links) > 50
    assert [
        (name_of(path), page, anchor)
        for path, page, anchor in links
        if anchor not in headings[(path.parent / page).resolve() if page else path]
    ] == []
