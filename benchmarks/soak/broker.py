"""A Kafka broker of one process on this machine: its own Java libraries, fetched once, in KRaft mode."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from panekeeper.framework.engine.session.environment import java_executable
from panekeeper.framework.engine.session.java_libraries import JavaLibraries, cached_jars

KeyAndValue = tuple[str, str | None]
"""Those of a message; the topic's partition is that of the key."""

# What a broker of one process does not start is left out: a third of the size.
_BROKER = JavaLibraries(
    what="a Kafka broker",
    folder="kafka-broker-4.1.0",
    main="kafka_2.13",
    packages=("org.apache.kafka:kafka_2.13:4.1.0",),
    left_out=(
        "commons-beanutils:*",
        "commons-collections:*",
        "commons-digester:*",
        "org.scala-lang:scala-reflect",
    ),
    shipped=(),
)
_TIMEOUT = 60
_silence = logging.getLogger(f"{__name__}.client")
_silence.setLevel(logging.CRITICAL + 1)  # a broker that a test killed is no news


def broker_jars() -> list[Path]:
    """Return the Java libraries of a broker; they are fetched if they are not in the cache."""
    (scala,) = (Path(pyspark.__file__).parent / "jars").glob("scala-library-*.jar")
    return [*cached_jars(_BROKER), scala]


class Broker:
    """A broker that can be stopped and started again on its data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port, controller = _free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap}, logger=_silence)
        (folder / "server.properties").write_text(
            "process.roles=broker,controller\n"
            "node.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            f"listeners=PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}\n"
            "controller.listener.names=CONTROLLER\n"
            f"log.dirs={folder / 'data'}\n"
            "auto.create.topics.enable=false\n"
            "offsets.topic.replication.factor=1\n"
            "offsets.topic.num.partitions=1\n"
            "transaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\n"
        )
        subprocess.run(
            self._command("kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c"),
            check=True,
            capture_output=True,
            timeout=_TIMEOUT,
        )
        self.start()

    def start(self) -> None:
        """Start the broker and wait until it accepts requests."""
        with (self.folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(self._command("kafka.Kafka"), stdout=log, stderr=log)
        self._admin.list_topics(timeout=_TIMEOUT)

    @contextmanager
    def down(self) -> Iterator[None]:
        """Kill the broker and start it again after the block."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    def kill(self) -> None:
        """End the broker by SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def create_topic(self, partitions: int = 1, **settings: str) -> str:
        """Create a topic of its own, with these settings of a topic (`_` for `.`), and return its name."""
        topic = f"t-{uuid.uuid4().hex[:8]}"
        self._create(topic, partitions, {name.replace("_", "."): value for name, value in settings.items()})
        return topic

    def _create(self, topic: str, partitions: int, config: dict[str, str]) -> None:
        for created in self._admin.create_topics([NewTopic(topic, partitions, 1, config=config)]).values():
            created.result(_TIMEOUT)

    def stored_messages(self, topic: str) -> int:
        """Return how many messages were stored in a topic since it was created."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader"}, logger=_silence)
        try:
            partitions = consumer.list_topics(topic, _TIMEOUT).topics[topic].partitions
            ends = (consumer.get_watermark_offsets(TopicPartition(topic, one), _TIMEOUT)[1] for one in partitions)
            return sum(ends)
        finally:
            consumer.close()

    def add_partitions(self, topic: str, total: int) -> None:
        """Let a topic have so many Kafka partitions in all."""
        for done in self._admin.create_partitions([NewPartitions(topic, total)]).values():
            done.result(_TIMEOUT)

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete the messages below an offset, as retention does."""
        for done in self._admin.delete_records([TopicPartition(topic, partition, offset)]).values():
            done.result(_TIMEOUT)

    def send(self, topic: str, messages: Iterable[KeyAndValue], partition: int | None = None) -> None:
        """Send messages in order and wait until the broker has them; to the partition of each key if none is given."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5}, logger=_silence)
        for key, value in messages:
            producer.produce(topic, key=key, value=value, partition=-1 if partition is None else partition)
        if producer.flush(_TIMEOUT):
            raise TimeoutError(f"the broker at {self.bootstrap} did not take all messages in {_TIMEOUT} s")

    def read(self, topic: str) -> Iterator[tuple[str | None, str, dict[str, str]]]:
        """Yield (key, value, headers) of each message that the topic has now."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "reader"}, logger=_silence)
        for partition in consumer.list_topics(topic, _TIMEOUT).topics[topic].partitions:
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), _TIMEOUT)
            consumer.assign([TopicPartition(topic, partition, first)])
            for message in consumer.consume(end - first, _TIMEOUT) if end > first else ():
                yield _text(message.key()), _text(message.value()) or "", _headers(message)
        consumer.close()

    def _command(self, program: str, *arguments: str) -> list[str]:
        path = os.pathsep.join(map(str, broker_jars()))
        java = java_executable()
        assert java is not None, "Spark's tests need Java"
        return [java, "-Xmx256m", "-cp", path, program, *arguments, str(self.folder / "server.properties")]


def _text(content: str | bytes | None) -> str | None:
    return content.decode() if isinstance(content, bytes) else content


def _headers(message: Message) -> dict[str, str]:
    found: Any = message.headers() or ()
    return {name: value.decode() for name, value in found}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


if __name__ == "__main__":  # for the image of the stack
    sys.stdout.write("\n".join(map(str, broker_jars())))
