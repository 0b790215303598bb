"""docs/conformance.md: each answer of ours has tests that exist, each of another system a source."""

from __future__ import annotations

import re

import pytest

from tests.project.proofs import missing, proofs_of
from tests.project.sources import ROOT

PAGE = (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
ANSWERS, SOURCES = PAGE.split("\n## Sources\n")
SYSTEMS = ["Spark", "Flink", "Beam", "Kafka Streams", "bytewax", "Quix Streams", "RisingWave"]
HEADER = ["", "situation", *SYSTEMS, "Panekeeper"]


def cells(line: str) -> list[str]:
    """Return the cells of a line of a table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def situations() -> dict[int, dict[str, str]]:
    """Return the answers of all systems for each situation, by its number."""
    lines = [cells(line) for line in ANSWERS.splitlines() if re.match(r"\| \d+ \|", line)]
    return {int(number): dict(zip(HEADER[2:], answers, strict=True)) for number, _, *answers in lines}


def sourced(system: str) -> list[int]:
    """Return the situations of which a source says what the system does."""
    section = SOURCES.partition(f"### {system}\n")[2].partition("\n### ")[0]
    lines = [cells(line) for line in section.splitlines() if re.match(r"\| .* \| [\d, ]+ \|$", line)]
    return [int(number) for _, numbers in lines for number in numbers.split(", ")]


def test_all_tables_have_the_same_systems_and_no_gap_in_their_numbers() -> None:
    """In one order, so that a column means the same everywhere."""
    headers = [cells(line) for line in ANSWERS.splitlines() if line.startswith("| | situation")]
    assert headers == [HEADER] * len(headers)
    assert [*situations()] == [*range(1, len(situations()) + 1)]
    assert len(situations()) >= 40


@pytest.mark.parametrize("number", situations())
def test_every_answer_of_ours_names_tests_that_exist(number: int) -> None:
    """Below the table of its situation."""
    shown = re.findall(rf"^\* {number}: (.*(?:\n  .*)*)", ANSWERS, re.MULTILINE)
    assert len(shown) == 1
    assert proofs_of(shown[0])
    assert missing(proofs_of(shown[0])) == []


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_answer_of_another_system_has_a_source(system: str) -> None:
    """But "not documented", which has none."""
    answered = {number for number, answers in situations().items() if answers[system] != "not documented"}
    assert sorted(set(sourced(system))) == sorted(answered)
