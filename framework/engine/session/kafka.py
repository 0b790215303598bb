"""Topics of Kafka as input: what a session needs for it, and what its errors mean for the user."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from framework.engine.session.environment import require_classes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_DATA_LOSS = re.compile(r"KAFKA_DATA_LOSS|Some data may have been lost")
_REASON = re.compile(r"^Reason: ?(.+?)$", re.MULTILINE)
_CLIENT_ERROR = re.compile(
    r"org\.apache\.kafka\.(?:\w+\.)*(\w+)(?:Exception|Error): (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE
)
_REFUSED = ("Authorization", "Authentication")


def require_kafka(spark: SparkSession) -> None:
    """Raise `SetupError` unless streams of this session can read topics of Kafka."""
    require_classes(spark, "cannot read from Kafka", "kafka", _CONNECTOR)


def kafka_problem(text: str) -> str | None:
    """Return what an error of Spark's Kafka connector means, as a sentence without its end; None for another error.

    Args:
        text: all that the error says.
    """
    if _DATA_LOSS.search(text):
        reason = _REASON.search(text)
        which = f" ({reason[1].rstrip('.')})" if reason else ""
        return (
            f"messages that it has not read are gone from Kafka{which}. Nothing was skipped: send them again to "
            "another topic, or start once with the option failOnDataLoss=false, which skips them"
        )
    found = _CLIENT_ERROR.search(text)
    if found is None:
        return None
    kind, said = found[1], found[2].rstrip(".")
    if kind == "UnknownTopicOrPartition":
        return f"a topic that it reads does not exist ({said}); create it, or correct the option subscribe or assign"
    if any(word in kind for word in _REFUSED):
        return f"Kafka refuses access ({said}); check the credentials and what they permit"
    return f"Kafka did not respond as it should ({said}); check kafka.bootstrap.servers, and that a broker runs there"
