"""Results in a topic of Kafka: all of them, and with what a consumer needs to drop what came before."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from integration_tests.kafka.conftest import SECONDS, Topic, expected
from panekeeper import DeclarationError, JobFailed, KafkaSink, OutputNotWritable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from panekeeper.framework.builder.outputs import DeltaJob

pytestmark = pytest.mark.xdist_group("kafka")


def sink(topic: Topic, name: str, **options: str) -> KafkaSink:
    """A sink that notices in seconds that a broker is away."""
    given = {
        "kafka.bootstrap.servers": topic.broker.bootstrap,
        "kafka.default.api.timeout.ms": f"{SECONDS}000",
        "kafka.request.timeout.ms": f"{SECONDS}000",
        "kafka.delivery.timeout.ms": f"{SECONDS}000",
        "kafka.max.block.ms": f"{SECONDS}000",
    }
    return KafkaSink(name, given | options, key="sensor")


def run(topic: Topic, job: DeltaJob) -> None:
    """Run the job until its topic is read."""
    assert job.start(checkpoint=topic.checkpoint, trigger="available_now").await_end(timeout=300)


@pytest.mark.extended
def test_a_batch_that_is_sent_twice_is_recognised_by_its_headers(
    topic: Topic, fail_at: Callable[[str, int], None]
) -> None:
    """Each row of the log is there, with the same headers if it was sent again; the key is the window partition."""
    results = topic.broker.create_topic(3)
    job = topic.declare().with_sink(sink(topic, results))
    topic.send(12)
    fail_at("after-delta-commit", 1)
    with pytest.raises(JobFailed):
        run(topic, job)
    run(topic, job)

    messages = [(key, json.loads(value), headers) for key, value, headers in topic.broker.read(results)]
    once = {(key, value["newest"], value["total"], *sorted(headers.items())) for key, value, headers in messages}
    assert len(messages) > len(once)
    assert sorted((key, newest, total) for key, newest, total, *_ in once) == topic.results() == expected(12)
    assert {headers["batch"] for _, _, headers in messages} == {"0", "1"}
    assert all(headers["version"] == str(value["firing"]) for _, value, headers in messages)
    assert len({headers["writer"] for _, _, headers in messages}) == 1


def test_a_function_gets_the_results_and_the_number_of_each_batch(topic: Topic) -> None:
    """What it gets is what the log gets."""
    got: list[tuple[int, int]] = []
    topic.send(12)
    run(topic, topic.declare().foreach_batch(lambda rows, number: got.append((number, rows.count()))))
    assert [number for number, _ in got] == [0, 1]
    assert sum(rows for _, rows in got) == 12
    assert topic.results() == expected(12)


@pytest.mark.extended
def test_a_job_resumes_when_the_broker_of_its_sink_is_back(topic: Topic) -> None:
    """What was not sent is sent by the next run, and a topic or server that is not there is named at the start."""
    results = topic.broker.create_topic(1)
    topic.send(4)
    run(topic, topic.declare().with_sink(sink(topic, results)))
    with pytest.raises(OutputNotWritable, match="cannot be sent to topic 'no-such': a topic does not exist"):
        run(topic, topic.declare().with_sink(sink(topic, "no-such")))
    away = {"kafka.bootstrap.servers": "127.0.0.1:9"}
    with pytest.raises(OutputNotWritable, match=r"check kafka\.bootstrap\.servers"):
        run(topic, topic.declare().with_sink(sink(topic, results, **away)))
    with pytest.raises(DeclarationError, match="key is 'sensor', but the results have only"):
        KafkaSink("x", away, key="sensor").prepare(topic.spark, topic.spark.range(1).schema)
    topic.send(4)
    run(topic, topic.declare().with_sink(sink(topic, results)))
    assert len(list(topic.broker.read(results))) == 8


@pytest.mark.extended
def test_each_pane_has_a_key_and_a_value_of_its_own_where_clocks_are_set_back(spark: SparkSession) -> None:
    """In Berlin it was 02:00 twice on that night: a topic that Kafka compacts by key would have lost the first pane."""
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        times = spark.sql("VALUES (1603584000000001L), (1603587600000001L), (null)").toDF("us")
        rows = times.selectExpr("timestamp_micros(us) pane_start", "CAST(timestamp_micros(us) AS TIMESTAMP_NTZ) own")
        sink = KafkaSink("x", {"kafka.bootstrap.servers": "x"}, key="pane_start")
        found = [(row.key, json.loads(row.value)) for row in sink.messages(rows, writer="w", batch=0).collect()]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert [key for key, _ in found] == ["2020-10-25T00:00:00.000001Z", "2020-10-25T01:00:00.000001Z", None]
    assert [value["pane_start"] for _, value in found] == [key for key, _ in found]
    assert [value["own"] for _, value in found] == ["2020-10-25T02:00:00.000001"] * 2 + [None]
