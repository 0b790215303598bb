"""Where does a job continue in each topic of Kafka, and which messages that it needs has the broker deleted?

The offsets are read from a checkpoint or a savepoint, which needs neither Spark nor a broker. Comparing them with the
broker needs the extra `kafka`.
"""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panekeeper.framework.declarations.display import Result
from panekeeper.framework.declarations.errors import SetupError
from panekeeper.recovery.errors import BrokerUnavailable, DamagedSavepoint, SavepointError
from panekeeper.recovery.jobs.checkpoint import current_folder
from panekeeper.recovery.savepoint.catalog import show
from panekeeper.recovery.storage.blobs import download
from panekeeper.recovery.storage.locations import Location, LocationOrArchive, checkpoint_at, open_archive
from panekeeper.recovery.storage.s3 import S3Options
from panekeeper.state.checkpoint.folder import COMMITS_FOLDER, OFFSETS_FOLDER, batch_numbers
from panekeeper.state.spark_logs import offset_lines, parsed_lines

Offsets = Mapping[str, Mapping[str, int]]
"""Topic -> number of the Kafka partition -> offset of the next message: as Spark's `startingOffsets` takes it."""


@dataclass(frozen=True, kw_only=True)
class DeletedMessages:
    """Messages that a job would have read next and that the broker no longer has, from the offset `first` to `last`.

    `last` is None if the whole partition is gone, or was created anew.
    """

    topic: str
    partition: int
    first: int
    last: int | None

    def __str__(self) -> str:
        where = f"topic {self.topic}, partition {self.partition}"
        if self.last is None:
            return f"{where}: the broker has nothing from {self.first} on: it was deleted or created anew"
        return f"{where}: messages {self.first} to {self.last} are gone"


@dataclass(frozen=True, kw_only=True)
class SourceOffsets(Result):
    """Where a job continues in Kafka after its last committed batch, by the number of the source in the job.

    `deleted` is what of it the broker no longer has; None if no broker was asked.
    """

    batch: int
    sources: Mapping[int, Offsets]
    deleted: tuple[DeletedMessages, ...] | None = None

    def fields(self) -> dict[str, Any]:
        """Return it as JSON-able fields."""
        sources = [{"source": number, "starting_offsets": offsets} for number, offsets in sorted(self.sources.items())]
        return {**super().fields(), "sources": sources}

    def _described(self) -> Iterator[str]:
        """Return a line that can be passed on as it is, for each source."""
        for number, offsets in sorted(self.sources.items()):
            yield f"{number}\t{json.dumps(offsets)}" if len(self.sources) > 1 else json.dumps(offsets)
        yield from map(str, self.deleted or ())


def checkpoint_offsets(checkpoint: Location, *, s3: S3Options | None = None) -> SourceOffsets:
    """Return where the job of a checkpoint continues in Kafka, whether it runs or not.

    Raises `SavepointError` if no batch was committed there, or the job reads nothing from Kafka.
    """
    folder = current_folder(checkpoint_at(checkpoint, s3))
    batches = batch_numbers(folder, COMMITS_FOLDER)
    if not batches:
        raise SavepointError(f"no batch of {checkpoint} was committed yet, so the job continues nowhere; run it first")
    return _found(offset_lines(folder, batches[-1]), batches[-1], str(checkpoint))


def savepoint_offsets(location: LocationOrArchive, name: str, *, s3: S3Options | None = None) -> SourceOffsets:
    """Return where a job that is restored from a savepoint continues in Kafka. Raises `SavepointError`."""
    manifest = show(location, name, s3=s3)
    wanted = f"{OFFSETS_FOLDER}/{manifest.batch}"
    for file in manifest.files:
        if file.path == wanted:
            content = io.BytesIO()
            download(open_archive(location, s3), file, content)
            try:
                _, *lines = parsed_lines(content.getvalue())
            except ValueError:
                raise DamagedSavepoint(f"{wanted} of savepoint {name!r} is no log of Spark; use another one") from None
            return _found(lines, manifest.batch, f"savepoint {name!r}")
    raise DamagedSavepoint(f"savepoint {name!r} has no {wanted}; use another savepoint")


def _found(lines: Sequence[Any], batch: int, what: str) -> SourceOffsets:
    sources = {number: value for number, value in enumerate(lines[1:]) if _is_of_topics(value)}
    if not sources:
        raise SavepointError(f"the job of {what} reads nothing from Kafka: none of its sources has offsets of a topic")
    return SourceOffsets(batch=batch, sources=sources)


def _is_of_topics(value: Any) -> bool:
    """Say whether this is `{topic: {partition: offset}}`; no other source of Spark's writes offsets in that form."""
    return (
        isinstance(value, dict)
        and bool(value)
        and all(
            isinstance(partitions, dict)
            and all(number.isdecimal() and isinstance(offset, int) for number, offset in partitions.items())
            for partitions in value.values()
        )
    )


TIMEOUT = 30.0
_Place = tuple[str, int]
"""Topic and number of the Kafka partition."""
_quiet = logging.getLogger(f"{__name__}.client")  # what the client would log is in the error
_quiet.setLevel(logging.CRITICAL + 1)


def deleted_messages(
    offsets: SourceOffsets, servers: str, *, config: Mapping[str, str] | None = None, timeout: float = TIMEOUT
) -> list[DeletedMessages]:
    """Return the messages that the brokers no longer have where a job continues, by topic and partition.

    `config` are further settings of librdkafka's client, such as `security.protocol`; each response is waited for so
    many seconds. Raises `SetupError` without the extra `kafka`, `BrokerUnavailable`.
    """
    wanted = {
        (topic, int(number)): offset
        for source in offsets.sources.values()
        for topic, partitions in source.items()
        for number, offset in partitions.items()
    }
    kept = _kept_by_broker(wanted, {**(config or {}), "bootstrap.servers": servers}, timeout)
    deleted = []
    for (topic, partition), first in sorted(wanted.items()):
        earliest, end = kept.get((topic, partition), (0, -1))
        if first > end:
            deleted.append(DeletedMessages(topic=topic, partition=partition, first=first, last=None))
        elif first < earliest:
            deleted.append(DeletedMessages(topic=topic, partition=partition, first=first, last=earliest - 1))
    return deleted


def read_config(path: Path) -> dict[str, str]:
    """Return the settings of a file with lines `name=value`, as Kafka's own tools take them. Raises `SetupError`."""
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
