# ruff: noqa: INP001 -- MkDocs loads this file by its path
"""What MkDocs does not do by itself: links to files outside `docs/`, versions, options of commands in one piece.

A link out of `docs/` leads to the file in the repository. A page that a docstring names, with a section or without, is
a link to it.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_LINK = re.compile(r"(?<!!)(\[[^\[\]]*\]\()([^)\s]+)(\))")
_OPTION = re.compile(r"(?<=[\s>])--[a-z][\w-]*")
_NAMED = re.compile(r"docs/([\w/-]+\.md)((?:,? sections? )\d+(?:\.\d+)?(?:(?:,| and|, and) \d+(?:\.\d+)?)*)?")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LOG = logging.getLogger("mkdocs.hooks.site_links")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 -- MkDocs gives all four
    """Called by MkDocs with the text of each page. A file that is not there is a warning, which ends a strict build."""
    docs = Path(config.docs_dir)
    folder = (docs / page.file.src_uri).parent

    def target(found: re.Match[str]) -> str:
        opening, link, closing = found.groups()
        parts = urlsplit(link)
        if parts.scheme or not parts.path:
            return found[0]
        path = (folder / parts.path).resolve()
        if path.is_relative_to(docs) and not path.is_dir() and path.suffix == ".md":
            return found[0]
        if not path.exists():
            _LOG.warning("%s links to %s, which is not there", page.file.src_uri, link)
        kind = "tree" if path.is_dir() else "blob"
        return f"{opening}{config.repo_url.rstrip('/')}/{kind}/main/{path.relative_to(docs.parent).as_posix()}{closing}"

    return _LINK.sub(target, markdown)


def on_page_content(html: str, *, page: Any, config: Any, **_: Any) -> str:
    """Called by MkDocs with the content of each page. A browser breaks a line within `--json`, if it may."""
    if page.file.src_uri.startswith("reference/"):
        html = _NAMED.sub(lambda found: _as_links(found, page, Path(config.docs_dir)), html)
    return _OPTION.sub(r'<span class="option">\g<0></span>', html)


def _as_links(found: re.Match[str], page: Any, docs: Path) -> str:
    """Return what names a page, and sections of it, as links to them."""
    named, sections = found[1], found[2] or ""
    url = f"{posixpath.relpath(named.removesuffix('.md'), page.url)}/"
    headings = re.findall(r"^#+ ((\d+(?:\.\d+)?) .*)", (docs / named).read_text(encoding="utf-8"), re.MULTILINE)
    anchors = {number: anchor_of(heading) for heading, number in headings}
    for number in _NUMBER.findall(sections):
        if number not in anchors:
            _LOG.warning("%s names section %s of %s, which is not there", page.file.src_uri, number, named)
    linked = _NUMBER.sub(lambda one: f'<a href="{url}#{anchors.get(one[0], "")}">{one[0]}</a>', sections)
    return linked.lstrip(", ") if named == "semantics.md" and sections else f'<a href="{url}">{named}</a>{linked}'


def anchor_of(heading: str) -> str:
    """Return where MkDocs puts a heading."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def on_post_page(output: str, **_: Any) -> str:
    """Called by MkDocs with each page. The theme asks GitHub for the stars of a repository; a page asks nobody."""
    return output.replace(' data-md-component="source"', "")


def on_config(config: Any) -> None:
    """Called by MkDocs first. A site that is not one of several versions has no list of them."""
    if "MIKE_DOCS_VERSION" not in os.environ:
        del config.extra["version"]
