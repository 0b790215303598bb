"""Tests that a page names as its proofs, and which of them are not there."""

from __future__ import annotations

import re

from tests.project.sources import ROOT

TEST = re.compile(r"`((?:tests|integration_tests)/[\w./-]+)(?:::(\w+))?`")


def proofs_of(text: str) -> list[tuple[str, str]]:
    """Return the files that a text names as proofs, each with the function in it, if one is named."""
    return TEST.findall(text)


def missing(proofs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return those of which the file or the function is not there."""
    return [
        (path, function)
        for path, function in proofs
        if not (ROOT / path).exists() or (function and f"def {function}(" not in (ROOT / path).read_text())
    ]
