"""What a sink beside the Delta tables refuses before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from panekeeper import DeclarationError, Sink
from panekeeper.framework.engine.user_sinks.kafka_sink import KafkaSink

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"topic": "", "options": SERVERS}, "topic is empty"),
        ({"topic": "t", "options": {}}, r"options lack kafka\.bootstrap\.servers"),
    ],
    ids=["no topic", "no servers"],
)
def test_a_sink_of_kafka_needs_a_topic_and_servers(given: dict[str, Any], words: str) -> None:
    """The message names what is missing."""
    with pytest.raises(DeclarationError, match=words):
        KafkaSink(**given)


def test_a_sink_of_kafka_shows_no_password() -> None:
    """It is shown in messages; its options may hold credentials."""
    sink = KafkaSink("t", SERVERS | {"kafka.sasl.jaas.config": "secret"})
    assert isinstance(sink, Sink)
    assert "secret" not in repr(sink)
