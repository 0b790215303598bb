"""One word, one meaning: words that docs/glossary.md replaces occur nowhere, in no name and in no sentence."""

from __future__ import annotations

import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

from tests.project.sources import MARKDOWN, SOURCES, name_of

WORDS = {
    r"shelf|shelves": "catalog",
    r"errands?": "request, or messages of a drill's process",
    r"hush(ed|es)?": "quiet",
    r"quarrels?|rivals?": "conflict, concurrent starts",
    r"signs? of life": "heartbeat",
    r"(let|lets|letting) (\w+ )?go|lets? go of": "evict, release",
    r"(what|that) (survives?|survived)|must survive": "persisted state, is persisted",
    r"without a word": "silently, without releasing its lease",
    r"mend(s|ed|ing)?": "fix",
    r"half done": "not committed",
    r"ledgers?|tall(y|ies)": "totals, counts",
    r"judg(e|es|ed|ing)": "comparison, validate",
    r"portions?": "round",
    r"hears?|heard|hearing": "receive",
    r"forgets?|forgot": "evict, discard",
    r"remembers?|remembered": "stores, has",
    r"stretch(es)?": "range of rows",
    r"wakes?|woken|asleep": "schedule, be idle",
    r"beats": "control file, control row",
    r"told|tells?|telling": "receive, report, distinguish",
    r"asks?|asked|asking|answers?|answered|answering": "check, request, respond, result",
    r"survives?|survived": "persist, keep",
    r"liars?|lied": "wrong, difference",
}
"""Word -> what to say in its place."""

NAMES_ONLY = {
    r"anew": "again",
    r"apart": "overlap",
    r"lots": "window batches, input files",
    r"settled?": "committed",
    r"patience": "timeout, retry time",
    r"lab": "damage",
    r"holder": "owner",
    r"beat": "control file, control row",
    r"lies?": "wrong, difference",
    r"wants?": "need, expected",
    r"dies?|died|dying|born|unborn": "exit, crash, be created",
    r"awake|slept": "active, be idle",
}
"""As WORDS, for words that have a meaning in plain English: they name nothing."""

NAMELESS = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}
"""No file is called so: the name says what is in it."""

EXEMPT = {"docs/glossary.md", "tests/project/test_words.py"}
TEXTS = [path for path in (*MARKDOWN, *SOURCES) if name_of(path) not in EXEMPT]
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@cache
def words_of(path: Path) -> str:
    """The text of a file with its names taken apart: `lets_go` and `LetsGo` read as "lets go"."""
    return " ".join(CAMEL.sub(" ", path.read_text(encoding="utf-8").replace("_", " ")).split())


@cache
def names_of(path: Path) -> frozenset[str]:
    """The words of all names in a file, and of the file's own."""
    code = io.StringIO(path.read_text(encoding="utf-8"))
    names = [token.string for token in tokenize.generate_tokens(code.readline) if token.type == tokenize.NAME]
    return frozenset(word.lower() for name in (*names, path.stem) for word in re.split(r"_+", CAMEL.sub("_", name)))


@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_was_replaced_is_nowhere(word: str) -> None:
    """Neither in prose nor in a message nor as a part of a name."""
    pattern = re.compile(rf"(?i:(?<![a-z])(?:{word})(?![a-z]))")
    found = {name_of(path): match[0] for path in TEXTS if (match := pattern.search(words_of(path)))}
    assert found == {}, f"say {WORDS[word]}"


def test_rules_are_cited_by_page_and_section() -> None:
    """As "docs/semantics.md section 3"; older marks in brackets led nowhere."""
    mark = re.compile(r"\[S[0-4]\]|\[semantics [0-9]")
    assert [name_of(path) for path in TEXTS if mark.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("word", NAMES_ONLY)
def test_a_word_with_another_meaning_names_nothing(word: str) -> None:
    """In sentences it may stand."""
    found = {name_of(path): name for path in SOURCES for name in names_of(path) if re.fullmatch(word, name)}
    assert found == {}, f"say {NAMES_ONLY[word]}"


def test_no_file_is_a_drawer_for_odds_and_ends() -> None:
    """Its name says what is in it."""
    assert [name_of(path) for path in SOURCES if path.stem in NAMELESS] == []
