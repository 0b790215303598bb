"""Errors of Spark's Kafka connector, as the sentences that a user reads."""

from __future__ import annotations

import pytest

from panekeeper.framework.declarations.errors import JobFailed
from panekeeper.framework.engine.session.spark_errors import translate

LOST = """org.apache.spark.sql.kafka010.KafkaIllegalStateException: Some data may have been lost because they are not \
available in Kafka any more;
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Could not read records in offset [6, 12) for topic partition readings-1
with consumer group spark-kafka-source-141ad0f9--775695163-executor.
\tat org.apache.spark.sql.kafka010.KafkaExceptions$.couldNotReadOffsetRange(KafkaExceptions.scala:94)
"""
GONE = (
    "messages that it has not read are gone from Kafka (Could not read records in offset [6, 12) for topic partition "
    "readings-1). Nothing was skipped. If a topic was deleted and created again, the next start says so, and what to "
    "do; else send them again to another topic, or start once with the option failOnDataLoss=false, which skips them"
)
AWAY = (
    "[STREAM_FAILED] Query terminated with exception: org.apache.kafka.common.errors.TimeoutException: Timed out "
    "waiting for a node assignment. Call: listNodes SQLSTATE: XXKST"
)
CHECK_ADDRESS = (
    "Kafka did not respond as it should (Timed out waiting for a node assignment. Call: listNodes); check "
    "kafka.bootstrap.servers, and that a broker runs there"
)
NO_TOPIC = (
    "java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
    "This server does not host this topic-partition."
)
CREATE_IT = (
    "a topic does not exist (This server does not host this topic-partition); create it, or correct its name in the "
    "options"
)
REFUSED = "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed: Invalid username"
CHECK_LOGIN = (
    "Kafka refuses access (Authentication failed: Invalid username); check the credentials and what they permit"
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [(LOST, GONE), (AWAY, CHECK_ADDRESS), (NO_TOPIC, CREATE_IT), (REFUSED, CHECK_LOGIN)],
    ids=["messages are gone", "the broker is away", "no such topic", "wrong credentials"],
)
def test_an_error_of_the_connector_says_what_to_do(text: str, problem: str) -> None:
    """What happened, in the broker's words where they help, and that nothing is lost."""
    error = translate(RuntimeError(text), "x")
    assert type(error) is JobFailed
    assert str(error) == f"job 'x' stopped: {problem}. Started again, it resumes with the same batch."
