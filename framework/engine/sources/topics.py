"""Are the topics of Kafka that a stream reads still those that it has read?

A topic that is deleted and created again has the name of before, and other messages under the same offsets. Spark knows
it by its name: it goes on at its offsets, and what the new topic has below them is never read. Kafka gives each topic
an id; which ones a job has read is recorded with its inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from framework.declarations.errors import JobFailed
from framework.engine.session.kafka import kafka_client
from framework.engine.sources.streams import is_source, leaves, options_of
from state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logger("job")
_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id that Kafka's client gives topics of a broker that knows no ids."""
_STARTS = ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp")
_LIMITS = {"kafka.default.api.timeout.ms": "20000", "kafka.request.timeout.ms": "10000"}


class TopicIds:
    """The ids of the topics that one source reads.

    Args:
        spark: a session with the Kafka connector.
        options: those of the source, by their names in lower case.

    Attributes:
        has_start: the options say where the very first batch begins, and not at what comes after the start.
        may_skip: messages that are gone may be skipped (`failOnDataLoss=false`).
    """

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 -- Kafka's client is among the session's Java libraries
        self._options = options
        self._client: Any = None
        self._cluster = ""
        self._has_failed = False
        starts = [value for name, value in options.items() if name in _STARTS and value.lower() != "latest"]
        self.has_start = bool(starts)
        self.may_skip = options.get("failondataloss", "true").lower() == "false"

    def of(self, topics: Collection[str]) -> dict[str, str]:
        """Return topic -> the id of the cluster and its own; those that are not there, or have none, are left out.

        That this cannot be found out is a warning, and the next run looks again: Spark may be permitted more than this
        client, which must not hold up each batch.
        """
        from py4j.protocol import Py4JJavaError

        if self._has_failed:
            return {}
        try:
            self._connect()
            names = self._jvm.java.util.ArrayList()
            for name in topics:
                names.add(name)
            found = self._client.describeTopics(names).allTopicNames().get()
            ids = {name: str(found.get(name).topicId().toString()) for name in topics}
        except Py4JJavaError as error:
            self._has_failed = True
            _log.warning("whether topics were created again is not known: %s", error.java_exception.toString())
            return {}
        return {name: f"{self._cluster}:{one}" for name, one in ids.items() if one != _NONE}

    def close(self) -> None:
        """Close the connection; the next call of `of` opens another one."""
        if self._client is not None:
            with suppress(Exception):  # the session may have ended, and the client with it
                self._client.close(self._jvm.java.time.Duration.ZERO)
            self._client = None

    def _connect(self) -> None:
        if self._client is None:
            limits = {} if _LIMITS.keys() & self._options.keys() else _LIMITS
            self._client = kafka_client(self._jvm, {**self._options, **limits})
            self._cluster = str(self._client.describeCluster().clusterId().get())


def topics_read(streams: Iterable[DataFrame]) -> dict[int, TopicIds]:
    """Return number of a source -> what reads the ids of its topics; those that do not read from Kafka are left out."""
    found = [(df, leaf) for df in streams for leaf in leaves(df) if is_source(leaf)]
    return {
        number: TopicIds(df.sparkSession, options_of(leaf))
        for number, (df, leaf) in enumerate(found)
        if str(leaf.sourceName()) == "kafka"
    }


def with_ids(
    known: Mapping[str, str], found: Mapping[str, str], topics: Iterable[str], *, may_skip: bool
) -> dict[str, str]:
    """Return the ids of the topics that a source reads now.

    Args:
        known: topic -> id that it had when it was read last.
        found: topic -> id that it has now.
        topics: those that are read.
        may_skip: messages may be skipped (`failOnDataLoss=false`).

    Raises:
        JobFailed: one was created again. In another cluster that is no wonder.
    """
    for name in topics:
        before, now = known.get(name, ""), found.get(name, "")
        if before and now and before != now and before.partition(":")[0] == now.partition(":")[0]:
            what = f"topic {name} was deleted and created again (its id is {now.partition(':')[2]} now)"
            if not may_skip:
                raise JobFailed(
                    f"{what}, so the job would go on at its offsets of before, and messages that the new topic has "
                    "below them would never be read. Nothing of this batch is in a table. Start once with the "
                    "option failOnDataLoss=false, which goes on there, and send those messages to the topic again"
                )
            _log.warning("%s: the job goes on at its offsets of before", what)
    return {name: one for name in topics if (one := found.get(name) or known.get(name))}
