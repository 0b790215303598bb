"""Which messages that a job needs next has the broker deleted? Reads from the broker; needs the extra `kafka`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panekeeper.framework.declarations.errors import SetupError
from panekeeper.recovery.errors import BrokerUnavailable
from panekeeper.recovery.kafka.offsets import SourceOffsets

TIMEOUT = 30.0
_Place = tuple[str, int]
"""Topic and number of the Kafka partition."""
_quiet = logging.getLogger(f"{__name__}.client")  # what the client would log is in the error
_quiet.setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True, kw_only=True)
class DeletedMessages:
    """Messages that a job would have read next and that the broker no longer has.

    Attributes:
        topic: its name.
        partition: number of the Kafka partition.
        first: offset of the first one.
        last: offset of the last one; None if the whole partition is gone, or was created anew.
    """

    topic: str
    partition: int
    first: int
    last: int | None


def deleted_messages(
    offsets: SourceOffsets, servers: str, *, config: Mapping[str, str] | None = None, timeout: float = TIMEOUT
) -> list[DeletedMessages]:
    """Compare where a job continues with the messages that the broker has.

    Args:
        offsets: where the job continues.
        servers: `host:port`, several with commas, as the option `kafka.bootstrap.servers` of the job.
        config: further settings of librdkafka's client, such as `security.protocol` and `sasl.password`.
        timeout: how long each response is waited for, in seconds.

    Returns:
        What is gone, by topic and partition; empty if everything is there.

    Raises:
        SetupError: the extra `kafka` is not installed.
        BrokerUnavailable: no broker responds, or it refuses the credentials.
    """
    wanted = {
        (topic, int(number)): offset
        for source in offsets.sources.values()
        for topic, partitions in source.items()
        for number, offset in partitions.items()
    }
    kept = _kept_by_broker(wanted, {**(config or {}), "bootstrap.servers": servers}, timeout)
    found = []
    for (topic, partition), first in sorted(wanted.items()):
        earliest, end = kept.get((topic, partition), (0, -1))
        if first > end:
            found.append(DeletedMessages(topic=topic, partition=partition, first=first, last=None))
        elif first < earliest:
            found.append(DeletedMessages(topic=topic, partition=partition, first=first, last=earliest - 1))
    return found


def read_config(path: Path) -> dict[str, str]:
    """Return the settings of a file with lines `name=value`, as Kafka's own tools take them.

    Raises:
        SetupError: a line is none, or the file cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"the settings of Kafka's client in {path} cannot be read: {error}") from None
    given = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise SetupError(f"line {number} of {path} is not name=value")
        given[name.strip()] = value.strip()
    return given


def _kept_by_broker(places: Iterable[_Place], config: dict[str, Any], timeout: float) -> dict[_Place, tuple[int, int]]:
    """Return the offset of the first message of each Kafka partition that is there, and of the next one to come."""
    try:
        from confluent_kafka import Consumer, KafkaException, TopicPartition
    except ModuleNotFoundError:
        raise SetupError("the package confluent-kafka is missing: pip install 'panekeeper[kafka]'") from None
    kept: dict[_Place, tuple[int, int]] = {}
    try:
        client = Consumer(
            {**config, "group.id": "panekeeper"}, logger=_quiet
        )  # joins no group: it subscribes to nothing
        topics = client.list_topics(timeout=timeout).topics
        for topic, partition in places:
            if topic in topics and partition in topics[topic].partitions:
                kept[topic, partition] = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout)
        client.close()
    except KafkaException as error:
        raise BrokerUnavailable(
            f"Kafka at {config['bootstrap.servers']} did not respond as it should ({_text(error)}); check the address "
            "and the credentials"
        ) from error
    return kept


def _text(error: Any) -> str:
    return str(error.args[0].str()) if error.args and hasattr(error.args[0], "str") else str(error)
