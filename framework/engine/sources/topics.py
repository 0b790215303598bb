"""Are the topics of Kafka that a stream reads still those that it has read?

A topic that is deleted and created again has the name of before, and other messages under the same offsets. Spark knows
it by its name: it goes on at its offsets, and what the new topic has below them is never read. Kafka gives each topic
an id; which ones a job has read is recorded with its inputs.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from panekeeper.framework.declarations.errors import JobFailed
from panekeeper.framework.engine.session.kafka import kafka_client, kafka_problem
from panekeeper.framework.engine.sources.streams import options_of, sources_of
from panekeeper.state.log import logger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logger("job")
_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id that Kafka's client gives topics of a broker that knows no ids."""
_NO_IDS = re.compile(r"Authorization|UnsupportedVersion")
"""In the name of an error: the broker is too old to know ids, or does not permit that the job reads them."""
_UNKNOWN = "UnknownTopicOrPartition"
_TIMES = ("startingtimestamp", "startingoffsetsbytimestamp")
_LATEST = -1
"""In a JSON of offsets: what comes after the start."""
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
        gives_none: the broker knows no ids, or does not permit it: topics are taken for the same by their names.
    """

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 -- Kafka's client is among the session's Java libraries
        self._options = options
        self._client: Any = None
        self._cluster = ""
        self.problem = ""
        self.gives_none = False
        self.has_start = _says_where_to_begin(options)
        self.may_skip = options.get("failondataloss", "true").lower() == "false"

    def named(self) -> list[str]:
        """Return the topics that the options name; none if they have a pattern."""
        if (chosen := self._options.get("assign")) is not None:
            return [*json.loads(chosen)]
        return [*filter(None, map(str.strip, self._options.get("subscribe", "").split(",")))]

    def reads(self, topic: str) -> bool:
        """Return whether the options name a topic, or their pattern fits it."""
        pattern = self._options.get("subscribepattern")
        if pattern is None:
            return topic in self.named()
        return bool(self._jvm.java.util.regex.Pattern.matches(pattern, topic))

    def of(self, topics: Collection[str]) -> dict[str, str]:
        """Return topic -> the id of the cluster and its own; those that are not there, or have none, are left out.

        So are all of them if Kafka does not respond, or does not permit it: why is in `problem`.
        """
        from py4j.protocol import Py4JJavaError

        if self.gives_none:
            return {}
        self.problem, found = "", {}
        try:
            if self._client is None:
                limits = {} if _LIMITS.keys() & self._options.keys() else _LIMITS
                self._client = kafka_client(self._jvm, {**self._options, **limits})
                self._cluster = str(self._client.describeCluster().clusterId().get())
            names = self._jvm.java.util.ArrayList()
            for name in topics:
                names.add(name)
            described = self._client.describeTopics(names).topicNameValues()
            for name in topics:
                found[name] = str(described.get(name).get().topicId().toString())
        except Py4JJavaError as error:
            self.problem = str(error.java_exception.toString())
            self.gives_none = _NO_IDS.search(self.problem) is not None
            _log.warning("the ids of topics %s could not be read: %s", ", ".join(topics), self.problem)
        self.gives_none = self.gives_none or _NONE in found.values()
        return {name: f"{self._cluster}:{one}" for name, one in found.items() if one != _NONE}

    def close(self) -> None:
        """Close the connection; the next call of `of` opens another one."""
        if self._client is not None:
            with suppress(Exception):  # the session may have ended, and the client with it
                self._client.close(self._jvm.java.time.Duration.ZERO)
            self._client = None


def _says_where_to_begin(options: Mapping[str, str]) -> bool:
    """Return whether the options say where the first batch begins, in all partitions and whenever the job is started.

    Times count before offsets, as in Spark. By default a job begins with what comes after its start.
    """
    if any(name in options for name in _TIMES):
        return options.get("startingoffsetsbytimestampstrategy", "error").strip().lower() != "latest"
    offsets = options.get("startingoffsets", "latest").strip()
    try:
        parts = [*json.loads(offsets).values()]
    except (ValueError, AttributeError):
        return offsets.lower() != "latest"
    return not any(_LATEST in part.values() for part in parts if isinstance(part, dict))


def topics_read(streams: Iterable[DataFrame]) -> dict[int, TopicIds]:
    """Return number of a source -> what reads the ids of its topics; those that do not read from Kafka are left out."""
    return {
        number: TopicIds(df.sparkSession, options_of(leaf))
        for number, (df, leaf) in enumerate(sources_of(streams))
        if str(leaf.sourceName()) == "kafka"
    }


def require_same(known: Mapping[str, str], found: Mapping[str, str], ids: TopicIds, root: str) -> None:
    """Refuse topics that are not those that a source has read, or may be others. In another cluster all are others.

    Args:
        known: topic -> id that it had when it was read last.
        found: topic -> id that it has now; those that are in here alone are new.
        ids: what has read them.
        root: full name of the checkpoint.

    Raises:
        JobFailed: one was created again, or is gone, or Kafka does not say so.
    """
    for name, before in known.items():
        now = found.get(name, "")
        if now == before or (now and now.partition(":")[0] != before.partition(":")[0]):
            continue
        if not now and not ids.may_skip:
            require_response([name], ids)
        what = f"topic {name} was deleted and created again (its id is {now.partition(':')[2]} now)"
        if not now:
            what = f"topic {name} may have been deleted and created again: its id cannot be read ({ids.problem})"
        if not ids.may_skip:
            raise JobFailed(
                f"{what}. The job would go on at its offsets of before, and messages that the new topic has below them "
                "would never be read. Nothing of this batch is in a table. If it is another topic: "
                f"`panekeeper offsets {shlex.quote(root)}` prints these offsets; start once with the option "
                "failOnDataLoss=false, which goes on there, and only then send the messages that it has below them to "
                "the topic again"
            )
        _log.warning("%s: the job goes on at its offsets of before", what)


def require_response(topics: Collection[str], ids: TopicIds) -> None:
    """Raise `JobFailed` if the ids of topics could not be read because Kafka did not respond."""
    if ids.problem and not ids.gives_none and _UNKNOWN not in ids.problem:
        raise JobFailed(
            f"{kafka_problem(ids.problem) or ids.problem}. Whether {', '.join(sorted(topics))} was deleted and created "
            "again cannot be known. Nothing of this batch is in a table: start the job again when Kafka responds"
        )


def require_subscribed(topics: Collection[str], ids: TopicIds) -> None:
    """Refuse a source that does not read topics any more that the last batch has read: Spark would, one batch later."""
    left = sorted(name for name in topics if not ids.reads(name))
    if left and not ids.may_skip:
        raise JobFailed(
            f"topics {', '.join(left)} were read until now, and the options of the source name them no more. Name them "
            "again; or, if nothing more of them is wanted, start once with the option failOnDataLoss=false. One that "
            "is named again after that is read from its beginning"
        )
