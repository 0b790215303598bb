# ruff: noqa: INP001 -- mkdocstrings loads this file by its path
"""Lets the reference show the examples of docstrings as code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class DocstringExamples(Extension):
    """Puts each `>>>` paragraph into a code block: Markdown takes it for a quotation."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Called by Griffe with each thing that it has read."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
