"""The program that docs/kafka.md prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.project.sources import blocks_of

if TYPE_CHECKING:
    from integration_tests.kafka.conftest import Topic

pytestmark = pytest.mark.xdist_group("kafka")

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "kafka.md"


@pytest.mark.release  # as the other guides: CI reads a topic
def test_the_program_of_the_guide_reads_a_topic(topic: Topic) -> None:
    """As printed, but for the broker, the topic, the folder, and that it ends when the topic is read."""
    minutes = (*range(20), 30)
    lines = [json.dumps({"sensor": "a", "at": f"2026-03-01T12:{one:02d}:00Z", "value": one}) for one in minutes]
    topic.broker.send(topic.name, [("a", line) for line in (*lines[:5], "no reading", *lines[5:])])
    (program,) = [block.text for block in blocks_of(GUIDE) if block.language == "python"]
    for printed, here in [
        ("broker:9092", topic.broker.bootstrap),
        ('"subscribe", "readings"', f'"subscribe", "{topic.name}"'),
        ('"out/', f'"{topic.folder}/'),
        ('trigger="immediate"', 'trigger="available_now"'),
    ]:
        assert printed in program
        program = program.replace(printed, here)
    exec(program, {"__name__": "guide"})  # noqa: S102 -- our own page
    assert sorted(row["mean"] for row in topic.rows("mean")) == [4.5, 14.5]
    assert [row["reason"] for row in topic.rows("mean_quarantine")] == ["not a reading"]
