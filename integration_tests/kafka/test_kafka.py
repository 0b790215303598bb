"""Jobs that read from Kafka: nothing is lost or doubled, whatever happens to the topic, the broker and the job."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from re import fullmatch
from typing import Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from integration_tests.kafka.conftest import Topic, expected
from panekeeper import (
    Count,
    IncompatibleCheckpoint,
    JobFailed,
    TimeInterval,
    Tumbling,
    agg,
    capsule,
    replay,
    why,
    windowed,
)
from panekeeper.cli.main import main
from panekeeper.framework.builder.outputs import DeltaJob
from panekeeper.recovery.errors import RowsGone
from panekeeper.recovery.restore.restore import restore
from panekeeper.recovery.savepoint.create import savepoint
from panekeeper.testing import run_capsule

pytestmark = pytest.mark.xdist_group("kafka")


@pytest.mark.spark_4_1
def test_results_are_those_of_each_sensors_messages_in_order(topic: Topic) -> None:
    """The key of a message is the partition of its window: batches of seven messages, and a restart, change nothing."""
    topic.send(20)
    topic.run()
    assert topic.results() == expected(20)
    topic.send(15)
    topic.run(topic.stream(maxOffsetsPerTrigger=4))
    assert topic.results() == expected(35)
    assert sum(row["rows_in"] for row in topic.rows("log_metrics")) == 35


def test_a_partition_that_lags_holds_the_watermark_back(topic: Topic) -> None:
    """Its rows are not late, also after a restart; without `watermark_by` those of the other would make them late."""

    def run(**options: Any) -> None:
        kafka = {"kafka.bootstrap.servers": topic.broker.bootstrap, "subscribe": topic.name}
        messages = topic.spark.readStream.format("kafka").options(**kafka, startingOffsets="earliest").load()
        seconds = F.col("value").cast("string").cast("bigint")
        stream = messages.select("topic", "partition", F.timestamp_seconds(seconds).alias("at"))
        panes = windowed(stream, name="lags", event_time="at", watermark=0, **options).window(TimeInterval(10))
        counted = panes.aggregate(n=agg.count()).to_delta(topic.folder / f"log{len(options)}")
        job = counted.start(checkpoint=topic.folder / f"checkpoint{len(options)}", trigger="available_now")
        assert job.await_end(timeout=300)

    for ahead, behind in (([1, 200], [2]), ([201], [3, 12])):
        for partition, seconds in enumerate((ahead, behind)):
            topic.broker.send(topic.name, [(f"s{partition}", str(second)) for second in seconds], partition)
        run()
        run(watermark_by="partition")
    assert [(row["pane_start"].second, row["n"]) for row in topic.rows("log1")] == [(0, 3)]
    assert [row["reason"] for row in topic.rows("log1_quarantine")] == []
    assert [row["reason"] for row in topic.rows("log0_quarantine")] == ["LATE", "LATE"]


@pytest.mark.extended
def test_a_message_with_a_broken_value_is_quarantined(topic: Topic) -> None:
    """It has its reason there, and the job goes on."""
    topic.broker.send(topic.name, [("s0", "0"), ("s1", "one"), ("s1", None), ("s1", "1")])
    topic.run()
    assert topic.results() == expected(2)
    quarantined = [(row["reason"], json.loads(row["row"]).get("text")) for row in topic.rows("log_quarantine")]
    assert all(fullmatch(r"\d+@\d+", row["source"]) for row in topic.rows("log_quarantine"))
    assert sorted(quarantined, key=str) == [("NO_NUMBER", "one"), ("NO_NUMBER", None)]


@pytest.mark.release
def test_new_partitions_of_a_topic_are_read_from_their_beginning(topic: Topic) -> None:
    """A job that runs again after the topic has grown reads all of them."""
    topic.send(10)
    topic.run()
    topic.broker.add_partitions(topic.name, 5)
    topic.send(4, sensors=1, partition=4)
    topic.run()
    assert sorted(row["newest"] for row in topic.rows()) == list(range(14))


def test_a_job_that_retention_overtook_fails_and_says_what_is_gone(topic: Topic) -> None:
    """Nothing is skipped silently: the error names topic, partition and offsets, and what can be done."""
    topic.send(6, sensors=1, partition=1)
    topic.run()
    topic.send(6, sensors=1, partition=1)
    topic.broker.delete_before(topic.name, 1, 9)
    with pytest.raises(JobFailed, match=rf"messages that it has not read are gone.*{topic.name}-1.*failOnDataLoss"):
        topic.run()


@pytest.mark.extended
def test_a_topic_that_the_options_name_no_more_is_refused_at_the_start(topic: Topic) -> None:
    """Spark would log a batch without it first, and then refuse each start; named again, it goes on where it was."""
    other = topic.broker.create_topic(1)
    topic.send(6)
    topic.run(topic.stream(subscribe=f"{topic.name},{other}"))
    with pytest.raises(IncompatibleCheckpoint, match=f"topics {other} were read until now.*failOnDataLoss=false"):
        topic.run()
    topic.send(6)
    topic.run(topic.stream(subscribe=f"{topic.name},{other}"))
    assert topic.results() == expected(12)


@pytest.mark.extended
def test_a_savepoint_of_a_job_on_kafka_is_restored(topic: Topic) -> None:
    """State, tables and offsets go back together, and the messages since then are read once more."""
    topic.send(10)
    topic.run()
    place = topic.folder / "savepoints"
    savepoint(topic.checkpoint, "one", to=place, spark=topic.spark)
    topic.send(10)
    topic.run()
    restore(place, "one", spark=topic.spark)
    assert topic.results() == expected(10)
    topic.run()
    assert topic.results() == expected(20)


@pytest.mark.release  # CI runs one from files again
def test_a_batch_from_kafka_is_run_again(topic: Topic) -> None:
    """By its offsets, through a restart; `why` names the message that moved the watermark; what is gone is named."""

    def declare() -> DeltaJob:
        messages = topic.stream(maxOffsetsPerTrigger=4)
        stream = messages.withColumn("at", F.timestamp_seconds("n"))
        panes = windowed(stream, name="panes", event_time="at", partition_by="sensor", key_groups=2)
        return (
            panes.window(TimeInterval(10)).aggregate(total=agg.sum("n"), n=agg.count()).to_delta(topic.folder / "log")
        )

    for _ in range(2):
        topic.send(15, sensors=2, partition=1)
        job = declare().start(checkpoint=topic.checkpoint, trigger="available_now")
        assert job.await_end(timeout=300)
    numbers = range(max(row["batch"] for row in topic.rows("log_metrics")) + 1)
    assert len(numbers) >= 8
    found = [replay(topic.checkpoint, number, job=declare()) for number in numbers]
    assert [one.differences for one in found] == [()] * len(numbers)
    assert sum(one.counts["rows_in"] for one in found) == 30
    fired = next(number for number, one in enumerate(found) if one.counts["firings"])
    assert run_capsule(capsule(topic.checkpoint, fired, {"sensor": "s0"}, job=declare()).to_json()).is_equal
    said = str(why(topic.checkpoint, {"sensor": "s0"}, "1970-01-01T00:00:00", job=declare()))
    assert "the row of batch 2 that has moved it: event time 1970-01-01T00:00:11Z (" in said
    assert "partition=1 offset=11)" in said
    topic.broker.delete_before(topic.name, 1, 9)
    with pytest.raises(RowsGone, match="failOnDataLoss"):
        replay(topic.checkpoint, 1, job=declare())


@pytest.mark.release
def test_a_restore_is_refused_if_messages_are_gone(topic: Topic, capsys: pytest.CaptureFixture[str]) -> None:
    """`offsets` prints where a savepoint continues, and with the broker's address what retention has taken since."""
    topic.send(6, sensors=1, partition=1)
    topic.run()
    place = str(topic.folder / "savepoints")
    savepoint(topic.checkpoint, "one", to=place, spark=topic.spark)
    command = ["offsets", place, "one", "--bootstrap-servers", topic.broker.bootstrap]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == {topic.name: {"0": 0, "1": 6, "2": 0}}
    topic.send(6, sensors=1, partition=1)
    topic.broker.delete_before(topic.name, 1, 9)
    assert main(command) == 1
    assert f"topic {topic.name}, partition 1: messages 6 to 8 are gone" in capsys.readouterr().out
    assert main(["restore", place, "one", "--bootstrap-servers", topic.broker.bootstrap]) == 1
    assert "could not continue in Kafka" in capsys.readouterr().err


@pytest.mark.release  # CI lets the broker of a sink come back
def test_a_job_resumes_when_the_broker_is_back(topic: Topic) -> None:
    """It fails when the broker does not respond for as long as its client waits; all messages are read once."""
    topic.send(8)
    topic.run()
    with topic.broker.down(), pytest.raises(JobFailed, match="Kafka did not respond"):
        topic.run()
    topic.send(8)
    topic.run()
    assert topic.results() == expected(16)


@pytest.mark.release
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "no-such-topic"}, "a topic does not exist"),
        ({"kafka.bootstrap.servers": "127.0.0.1:9"}, "Kafka did not respond"),
    ],
    ids=["missing topic", "wrong server"],
)
def test_what_cannot_be_read_is_named(topic: Topic, options: dict[str, Any], words: str) -> None:
    """A topic that is not there, and a server that does not respond: the error says which."""
    with pytest.raises(JobFailed, match=words):
        topic.run(topic.stream(**options))


@pytest.mark.extended
def test_log_and_view_have_the_same_rows_of_a_batch_that_failed_between_them(
    topic: Topic, fail_at: Callable[[str, int], None]
) -> None:
    """Run again, Spark would read the partitions in another order. The start completes the batch as it is recorded."""
    for partition in range(3):
        topic.send(10, sensors=1, partition=partition)
    fail_at("between-delta", 0)
    window = windowed(topic.stream(maxOffsetsPerTrigger=100), name="all").window(Tumbling(Count(13)))
    job = window.aggregate(values=agg.collect("n")).to_delta(topic.folder / "log", view=topic.folder / "view")
    for _ in range(2):
        with suppress(JobFailed):
            job.start(checkpoint=topic.checkpoint, trigger="available_now").await_end()
    [newest] = topic.rows("view")
    assert [row["values"] for row in topic.rows() if row["firing"] == newest["firing"]] == [newest["values"]]
