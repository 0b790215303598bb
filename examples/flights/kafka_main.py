"""The flights through Kafka: `python -m examples.flights.kafka_main HOST:PORT`.

Sends the replay's files to a topic, one after the other, and lets the job read each before it sends the next, so that
the results are those of the files, row by row. Killed at any moment and run again, it resumes; the topic and the tables
at the end are the same. With tables on S3 it is a program for `spark-submit`: `examples.stack` runs it on a cluster.
"""

import argparse
import json
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import KafkaError, NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # spark-submit puts only this folder there

from examples.flights.data import Input, Replay, around, raw_flights, write_input
from examples.flights.tables import LOG, METRICS, QUARANTINE, VIEW, read_table
from panekeeper import JobFinished, PanekeeperError, session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

PARTITIONS = 3
TIMEOUT = 60
_NO_LEADER_YET = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
)


class Topic:
    """A topic to which the flights are sent, each to the Kafka partition of its carrier and airport."""

    def __init__(self, servers: str, name: str) -> None:
        self.servers = servers
        self.name = name
        topics = AdminClient({"bootstrap.servers": servers})
        if name not in topics.list_topics(timeout=TIMEOUT).topics:
            for created in topics.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
                created.result(TIMEOUT)
        # Idempotent: a message that is sent again after a lost acknowledgement is stored once.
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        self._seen = [0] * PARTITIONS
        self._stored = self._stored_messages()

    def send(self, file: Path) -> None:
        """Send the flights of a file that an earlier run has not sent, and wait until the broker has them.

        Files must come in their order: the flights that a Kafka partition holds are the first of those that belong
        there, so their number says which they are.
        """
        for key, value in messages(file):
            partition = zlib.crc32(key) % PARTITIONS
            if self._seen[partition] >= self._stored[partition]:
                self._producer.produce(self.name, value, key, partition)
            self._seen[partition] += 1
            self._producer.poll(0)
        if self._producer.flush(TIMEOUT):
            raise TimeoutError(f"Kafka at {self.servers} did not take all flights in {TIMEOUT} s")

    def _stored_messages(self) -> list[int]:
        reader = Consumer({"bootstrap.servers": self.servers, "group.id": "panekeeper-flights"})
        places = [TopicPartition(self.name, number) for number in range(PARTITIONS)]
        ends = [_end(reader, place) for place in places]
        reader.close()
        return ends


def _end(reader: Consumer, place: TopicPartition) -> int:
    """Return the offset of the next message; wait for the leader of a partition that was just created."""
    for left in reversed(range(TIMEOUT)):
        try:
            return int(reader.get_watermark_offsets(place, timeout=TIMEOUT)[1])
        except KafkaException as error:
            if error.args[0].code() not in _NO_LEADER_YET or not left:
                raise
            time.sleep(1)
    raise AssertionError


def messages(file: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield key and value of the message for each flight of a file, in order."""
    for flight in pq.read_table(file).to_pylist():
        key = f"{flight['carrier']} {flight['origin']}"
        yield key.encode(), json.dumps(flight, default=lambda time: time.isoformat()).encode()


def main(arguments: list[str]) -> int:
    """Run the replay and, if it is complete and on this machine, compare its tables; return the exit code."""
    options = _options(arguments)
    raw = around(raw_flights(), options.days)
    on_s3 = options.out.startswith(("s3://", "s3a://"))
    with ExitStack() as scratch:
        folder = Path(scratch.enter_context(TemporaryDirectory()) if on_s3 else options.out)
        given = write_input(folder / "input", raw, Replay(days=options.days, slow_files=options.slow_files))
        spark = session("panekeeper-flights", kafka=True, s3=on_s3)
        try:
            replay(spark, given, options)
        except (PanekeeperError, KafkaException, TimeoutError) as error:
            print(f"the replay cannot continue: {error}", file=sys.stderr)
            return 2
        finally:
            spark.stop()
    if on_s3 or options.files is not None:
        return 0
    return 0 if compare(raw, given, Path(options.out)) else 1


def compare(raw: "pd.DataFrame", given: Input, out: Path) -> bool:
    """Print whether the tables of a complete replay are as expected, and return it."""
    from rich.console import Console

    from examples.flights.oracle import Oracle
    from examples.flights.replay import ReplayTotals
    from examples.flights.report import Results, print_balance, print_comparison

    console = Console(soft_wrap=True)
    results = Results(log=read_table(out / LOG), view=read_table(out / VIEW), quarantine=read_table(out / QUARANTINE))
    balanced = print_balance(console, ReplayTotals.of_earlier_runs(out).counts())
    found = Oracle(raw, given.boundaries).differences(log=results.log, view=results.view, quarantine=results.quarantine)
    print_comparison(console, results, found)
    return balanced and not found


def replay(spark: "SparkSession", given: Input, options: argparse.Namespace) -> None:
    """Send file after file, each once the job has read the one before; flush at the end."""
    from examples.flights.pipeline import start, topic

    target = Topic(options.servers, options.topic)
    done = given.files_within(flights_read(spark, options.out))
    files = sorted(given.folder.glob("*.parquet"))
    for number, file in enumerate(files[: options.files], 1):
        target.send(file)
        if number <= done and number < len(files):  # the last one is followed by the flush
            continue
        try:
            job = start(topic(spark, options.servers, options.topic), options.out)
            job.await_end()
            print(f"file {number} of {len(files)}", flush=True)
            if number == len(files):
                job.flush()
        except JobFinished:
            pass  # killed after the flush


def flights_read(spark: "SparkSession", out: str) -> int:
    """Return how many flights the batches of earlier runs have read."""
    from delta.tables import DeltaTable

    metrics = f"{out}/{METRICS}"
    if not DeltaTable.isDeltaTable(spark, metrics):
        return 0
    rows = spark.read.format("delta").load(metrics).dropDuplicates(["batch"]).agg({"rows_in": "sum"}).first()
    return int(rows[0] or 0) if rows else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.flights.kafka_main", description=__doc__.splitlines()[0])
    parser.add_argument("servers", metavar="HOST:PORT", help="the brokers, several with commas")
    parser.add_argument("--topic", default="flights", help="created if it is not there (flights)")
    parser.add_argument("--out", default="out/kafka", help="checkpoint and tables, here or on S3 (out/kafka)")
    parser.add_argument("--days", type=int, metavar="N", help="replay only N days around the worst one")
    parser.add_argument("--slow-files", type=int, default=10, metavar="N", help="split the worst day into N files (10)")
    parser.add_argument("--files", type=int, metavar="N", help="only the first N files of the replay, without a flush")
    options = parser.parse_args(arguments)
    options.out = options.out.rstrip("/")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
