"""docs/semantics.md: every rule names tests that exist, and every citation of a section leads to one."""

from __future__ import annotations

import re

import pytest

from tests.project.proofs import missing, proofs_of
from tests.project.sources import MARKDOWN, ROOT, SOURCES, name_of

PAGE = ROOT / "docs" / "semantics.md"

HEADING = re.compile(r"^#{2,3} (\d+(?:\.\d+)?) (.+)$", re.MULTILINE)
QUOTED = re.compile(r"`(tests/transcripts/[\w./-]+\.yaml)`\s+\(([^()]*)\)")
CITATION = re.compile(r"docs/semantics\.md sections?\s+(\d+(?:\.\d+)?(?:(?:,| and| to)\s+\d+(?:\.\d+)?)*)")


def sections() -> dict[str, str]:
    """Return the text of each numbered section, up to the next heading."""
    text = PAGE.read_text(encoding="utf-8")
    found = list(HEADING.finditer(text))
    ends = [match.start() for match in found[1:]] + [len(text)]
    return {match[1]: text[match.end() : end] for match, end in zip(found, ends, strict=True)}


def sections_with_rules() -> dict[str, str]:
    """Return the sections that state rules: those that are not divided into others."""
    return {
        number: text
        for number, text in sections().items()
        if not any(other.startswith(f"{number}.") for other in sections())
    }


def proof_of(text: str) -> str:
    """Return the paragraph of a section that names its tests."""
    return text.partition("Proved by:")[2].partition("\n\n")[0]


@pytest.mark.parametrize("number", sections_with_rules())
def test_every_section_names_tests_that_exist(number: str) -> None:
    """A rule without a test is not promised, and a renamed test is renamed here too."""
    named = proofs_of(proof_of(sections_with_rules()[number]))
    assert named
    assert missing(named) == []


def test_every_quoted_transcript_is_in_its_file() -> None:
    """A sentence in quotes after the path of a transcript is one of its rules or windows."""
    proofs = " ".join(" ".join(proof_of(text).split()) for text in sections_with_rules().values())
    quoted = [(path, words) for path, remark in QUOTED.findall(proofs) for words in re.findall(r'"([^"]+)"', remark)]
    assert len(quoted) > 10
    assert [(path, words) for path, words in quoted if words not in (ROOT / path).read_text()] == []


def test_every_cited_section_exists() -> None:
    """Code and guides cite this page as `docs/semantics.md section N`."""
    known = sections()
    cited = [
        (name_of(path), number)
        for path in (*MARKDOWN, *SOURCES)
        for numbers in CITATION.findall(re.sub(r"\s+(?:# )?", " ", path.read_text(encoding="utf-8")))
        for number in re.findall(r"\d+(?:\.\d+)?", numbers)
    ]
    assert [(name, number) for name, number in cited if number not in known] == []
