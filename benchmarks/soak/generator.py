"""The program that sends the rows of a load: `python -m benchmarks.soak.generator LOAD SERVERS TOPIC LOG [--unpaced]`.

It sends each row when it is due, and at the end one that takes the watermark to the end of the last pane. Its log has
a JSON object a line: each second how many rows were sent and by how much they are behind, and for each row that
completes a pane when Kafka stored it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import IO, Any

from confluent_kafka import KafkaError, Message, Producer

from benchmarks.soak.load import LAST_KEY, SECOND, Load

PARTITIONS = 4
_TIMEOUT = 120.0
_MOST_AT_ONCE = 2_000  # rows between two looks at the clock
_PAUSE = 0.01
_LOG_PERIOD = 1.0


class Generator:
    """Sends a load to a topic."""

    def __init__(self, load: Load, servers: str, topic: str, log: IO[str]) -> None:
        self._load = load
        self._topic = topic
        self._log = log
        self._completing = deque(load.completing_rows())
        self._failed: KafkaError | None = None
        # Idempotent: a message that is sent again after a lost acknowledgement is stored once.
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "enable.idempotence": True,
                "linger.ms": 10,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 200_000,
            }
        )

    def run(self, *, paced: bool) -> None:
        """Send all rows and wait until Kafka has them; each when it is due, or all as fast as Kafka takes them."""
        sent, logged = 0, 0.0
        while sent < self._load.rows:
            now = time.time()
            due = self._load.rows_before(int(now * SECOND)) if paced else self._load.rows
            if now - logged >= _LOG_PERIOD:
                self._write(at=now, rows=sent, behind_rows=due - sent if paced else 0)
                logged = now
            if due <= sent:
                self._producer.poll(_PAUSE)
                continue
            end = min(due, sent + _MOST_AT_ONCE)
            self._send(sent, end)
            sent = end
        self._flush()
        self._produce(LAST_KEY, self._load.end_us + self._load.delay_us, 0)
        self._flush()
        self._write(at=time.time(), rows=sent, behind_rows=0)

    def _send(self, first: int, end: int) -> None:
        keys, values = (column.tolist() for column in self._load.drawn(first, end))
        times = self._load.event_us(first, end).tolist()
        for row, (key, at, value) in enumerate(zip(keys, times, values, strict=True), first):
            if self._completing and self._completing[0][0] == row:
                panes = []
                while self._completing and self._completing[0][0] == row:
                    panes.append(self._completing.popleft()[1])
                self._produce(key, at, value, on_delivery=partial(self._note, panes))
            else:
                self._produce(key, at, value)
        self._producer.poll(0)
        if self._failed is not None:
            raise ConnectionError(f"Kafka did not take a row: {self._failed}")

    def _produce(self, key: int, at: int, value: int, **options: Any) -> None:
        message = b'{"key":%d,"at":%d,"value":%d}' % (key, at, value)
        while True:
            try:
                self._producer.produce(self._topic, message, b"%d" % key, partition=key % PARTITIONS, **options)
            except BufferError:  # Kafka is behind
                self._producer.poll(0.1)
            else:
                return

    def _note(self, panes: list[int], error: KafkaError | None, sent: Message) -> None:
        if error is not None:
            self._failed = error
            return
        _, stored_ms = sent.timestamp()  # of the broker: the topic has LogAppendTime
        for pane in panes:
            self._write(pane=pane, stored=stored_ms / 1000)

    def _flush(self) -> None:
        if self._producer.flush(_TIMEOUT):
            raise TimeoutError(f"Kafka did not take all rows within {_TIMEOUT:g} s")

    def _write(self, **entry: Any) -> None:
        self._log.write(json.dumps(entry) + "\n")
        self._log.flush()


def main(arguments: list[str]) -> int:
    """Send a load; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak.generator")
    parser.add_argument("load", type=Path, help="a file with the load")
    parser.add_argument("servers", help="the brokers")
    parser.add_argument("topic", help=f"a topic of {PARTITIONS} Kafka partitions")
    parser.add_argument("log", type=Path, help="a file for what was sent")
    parser.add_argument("--unpaced", action="store_true", help="as fast as Kafka takes the rows")
    options = parser.parse_args(arguments)
    with options.log.open("w", encoding="utf-8") as log:
        Generator(Load.read(options.load), options.servers, options.topic, log).run(paced=not options.unpaced)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
