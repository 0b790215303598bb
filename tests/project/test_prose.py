"""What is written about the project: every named path exists, every link leads somewhere."""

from __future__ import annotations

import re

from tests.project.sources import FOLDERS, MARKDOWN, ROOT, SOURCES, docstrings_of, name_of

OWN_FOLDERS = "|".join(
    folder for folder in (*FOLDERS, "docs", "tools") if folder != "panekeeper"
)  # also in checkpoints
PATH = re.compile(rf"(?<![\w./~<>-])(?:{OWN_FOLDERS})/(?:[\w.-]+/)*(?:[\w.-]+\.[a-z0-9]+\b)?")
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
