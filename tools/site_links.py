# ruff: noqa: INP001 -- MkDocs loads this file by its path
"""Lets pages of the site link to files outside `docs/`: such a link leads to the file in the repository."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_LINK = re.compile(r"(?<!!)(\[[^\]]*\]\()([^)\s]+)(\))")
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
