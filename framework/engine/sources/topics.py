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
from framework.engine.sources.streams import options_of, sources_of
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
        problem: why ids could not be read the last time; empty if they could.
    """

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 -- Kafka's client is among the session's Java libraries
        self._options = options
        self._client: Any = None
        self._cluster = ""
        self.problem = ""
        self.has_start = any(options.get(name, "latest").lower() != "latest" for name in _STARTS)
        self.may_skip = options.get("failondataloss", "true").lower() == "false"

    def of(self, topics: Collection[str]) -> dict[str, str]:
        """Return topic -> the id of the cluster and its own; those that are not there, or have none, are left out.

        So are all of them if Kafka does not respond, or does not permit it: why is in `problem`. If it never did, it is
        not requested again, as each batch would wait for that.
        """
        from py4j.protocol import Py4JJavaError

        if self.problem and not self._cluster:
            return {}
        found = {}
        try:
            self._connect()
            names = self._jvm.java.util.ArrayList()
            for name in topics:
                names.add(name)
            described = self._client.describeTopics(names).topicNameValues()
            for name in topics:
                found[name] = str(described.get(name).get().topicId().toString())
        except Py4JJavaError as error:
            self.problem = str(error.java_exception.toString())
            _log.warning("the ids of topics %s could not be read: %s", ", ".join(topics), self.problem)
        return {name: f"{self._cluster}:{one}" for name, one in found.items() if one != _NONE}

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
    return {
        number: TopicIds(df.sparkSession, options_of(leaf))
        for number, (df, leaf) in enumerate(sources_of(streams))
        if str(leaf.sourceName()) == "kafka"
    }


def require_same(known: Mapping[str, str], found: Mapping[str, str], ids: TopicIds, root: str) -> None:
    """Refuse topics that are not those that a source has read, or may be others.

    Args:
        known: topic -> id that it had when it was read last.
        found: topic -> id that it has now; those that are in here alone are new.
        ids: what has read them.
        root: full name of the checkpoint.

    Raises:
        JobFailed: one was created again, or is gone, or Kafka does not say so. In another cluster all are others.
    """
    for name, before in known.items():
        now = found.get(name, "")
        if now == before or (now and now.partition(":")[0] != before.partition(":")[0]):
            continue
        what = f"topic {name} was deleted and created again (its id is {now.partition(':')[2]} now)"
        if not now:
            what = f"topic {name} may have been deleted and created again: its id cannot be read ({ids.problem})"
        if not ids.may_skip:
            raise JobFailed(
                f"{what}. The job would go on at its offsets of before, and messages that the new topic has below them "
                f"would never be read. Nothing of this batch is in a table. If it is another topic: `panekeeper "
                f"offsets {root}` prints these offsets; start once with the option failOnDataLoss=false, which goes on "
                "there, and only then send the messages that it has below them to the topic again"
            )
        _log.warning("%s: the job goes on at its offsets of before", what)
