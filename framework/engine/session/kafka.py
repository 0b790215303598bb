"""Topics of Kafka by Kafka's own client, and what its errors mean for the user."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import OutputNotWritable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DATA_LOSS = re.compile(r"KAFKA_DATA_LOSS|Some data may have been lost")
_REASON = re.compile(r"^Reason: ?(.+?)$", re.MULTILINE)
_CLIENT_ERROR = re.compile(
    r"org\.apache\.kafka\.(?:\w+\.)*(\w+)(?:Exception|Error): (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE
)
_REFUSED = ("Authorization", "Authentication")


def require_topic(spark: SparkSession, topic: str, options: Mapping[str, str]) -> None:
    """Check that a topic exists and may be described with these options, as producers do before they write.

    Raises `OutputNotWritable` if it does not exist, no broker responds, or access is refused.
    """
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm  # noqa: SLF001 -- Kafka's client is among the session's Java libraries
    try:
        settings = jvm.java.util.HashMap()
        for name, value in options.items():
            if name.startswith("kafka."):
                settings.put(name.removeprefix("kafka."), value)
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            admin.describeTopics(jvm.java.util.List.of(topic)).allTopicNames().get()
        finally:
            admin.close(jvm.java.time.Duration.ZERO)
    except Py4JJavaError as error:
        text = str(error.java_exception.toString())
        problem = kafka_problem(text) or f"Kafka's client reports: {text}"
        raise OutputNotWritable(f"results cannot be sent to topic {topic!r}: {problem}") from error


def kafka_problem(text: str) -> str | None:
    """Return what an error of Spark's Kafka connector means, as a sentence without its end; None for another error."""
    if _DATA_LOSS.search(text):
        reason = _REASON.search(text)
        which = f" ({reason[1].rstrip('.')})" if reason else ""
        return (
            f"messages that it has not read are gone from Kafka{which}. Nothing was skipped. Send them again to "
            "another topic, or start once with the option failOnDataLoss=false, which skips them"
        )
    client_error = _CLIENT_ERROR.search(text)
    if client_error is None:
        return None
    kind, said = client_error[1], client_error[2].rstrip(".")
    if kind == "UnknownTopicOrPartition":
        return f"a topic does not exist ({said}); create it, or correct its name in the options"
    if any(word in kind for word in _REFUSED):
        return f"Kafka refuses access ({said}); check the credentials and what they permit"
    return f"Kafka did not respond as it should ({said}); check kafka.bootstrap.servers, and that a broker runs there"
