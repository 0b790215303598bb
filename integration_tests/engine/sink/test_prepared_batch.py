"""A batch is recorded before a table has anything of it, and completed as it was recorded."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import MEMORY_COMMAND_NAME, Py4JJavaError

from integration_tests.engine.readings import FILES, LOG
from integration_tests.engine.sink.conftest import fail_in_batch_2, reasons, recorded
from panekeeper import CheckpointError, JobFailed, TimeInterval, agg, windowed
from panekeeper.framework.engine.flow import processor
from panekeeper.framework.engine.job import batch_journal
from panekeeper.framework.engine.job.batch_journal import BatchJournal
from panekeeper.framework.engine.session.settings import session_settings
from panekeeper.framework.engine.sink import batch_output, spark_table
from panekeeper.state.errors import CorruptState

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from integration_tests.engine.conftest import Readings
    from panekeeper.framework.engine.sink.batch_output import BatchOutput


MOST_CALLS = 120
"""Of Java, for a batch. With pyspark's functions, and the whole plan searched, there were two hundred."""
LATE = {"late": "value = 16"}
"""Refuses a row of batch 2."""
LOG_WITHOUT_IT = [row for row in LOG if row[:4] != ("a", "10:00", 17, 2)]


@pytest.mark.parametrize(
    "point",
    [
        "between-delta",
        pytest.param("before-delta", marks=pytest.mark.extended),
        pytest.param("after-delta-commit", marks=pytest.mark.release),
    ],
)
def test_a_recorded_batch_has_its_rows_once_whatever_the_program_is_now(
    story: Readings, fail_at: Callable[[str, int], None], point: str
) -> None:
    """One more rule, and the files of the batch are gone: neither counts before the next batch."""
    fail_in_batch_2(story, fail_at, point)
    (story.folder / "in" / "0002.json").unlink()
    story.put(("c", "10:09:31", 16))
    story.run(reject=LATE)

    assert story.log() == LOG
    assert story.log("view") == LOG[1:]
    assert reasons(story) == ["NULL_EVENT_TIME", "NULL_EVENT_TIME", "late"]
    metrics = story.rows("log_metrics")
    assert sum(row["rows_in"] for row in metrics) == 10
    assert len({row["batch"] for row in metrics}) == len(metrics)
    assert story.numbers("commits") == story.numbers("offsets")


@pytest.mark.extended
def test_a_recorded_batch_needs_no_control_file_that_it_was_begun_with(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """It is not run again, so what is lost of it does no harm."""
    fail_at("between-delta", 0)
    with pytest.raises(JobFailed):
        story.run()
    for path in (story.epoch / "pulse").glob("*.json"):
        path.unlink()
    story.run()
    assert story.log() == LOG


def test_a_batch_that_is_not_recorded_is_run_by_the_program_that_there_is(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """Its state was stored already; no table has anything of it."""
    fail_in_batch_2(story, fail_at, "before-prepare")
    assert recorded(story, 2) is None
    story.run(reject=LATE)
    assert story.log() == LOG_WITHOUT_IT
    assert reasons(story) == ["NULL_EVENT_TIME", "NULL_EVENT_TIME", "late"]


def test_what_is_recorded_as_the_commit_of_a_batch_is_what_spark_logs(readings: Readings) -> None:
    """Byte by byte: the watermark of the next batch, and the ids of the state. So the next batch finds its state."""
    for number, rows in enumerate(FILES):
        readings.put(*rows)
        readings.run(key_groups=4)
        last = readings.numbers("commits")[-1]
        batch = recorded(readings, last)
        assert batch is not None
        assert batch.spark_commit == (readings.epoch / "commits" / str(last)).read_text()
        assert [path.name for path in (readings.epoch / "panekeeper" / "prepared").iterdir()] == [f"0-{last}"]
        assert number <= last
    assert readings.log() == LOG


def test_a_batch_makes_few_calls_of_java(readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    """From step 2 to 5, in a plan with two operators that have state; its commit is what Spark logs, of both."""
    run, send, query = BatchJournal.run, GatewayClient.send_command, threading.local()
    batches: dict[int, tuple[int, str]] = {}

    def count(client: GatewayClient, command: str, *args: Any, **options: Any) -> str:
        if not command.startswith(MEMORY_COMMAND_NAME):  # an object is released
            query.calls = getattr(query, "calls", 0) + 1
        answer: str = send(client, command, *args, **options)
        return answer

    def run_counted(journal: BatchJournal, packed: DataFrame, number: int, *args: Any) -> BatchOutput:
        query.calls = 0
        output = run(journal, packed, number, *args)
        calls, batch = query.calls, recorded(readings, number)
        assert batch is not None
        batches[number] = calls, batch.spark_commit
        return output

    monkeypatch.setattr(GatewayClient, "send_command", count)
    monkeypatch.setattr(BatchJournal, "run", run_counted)
    for rows in FILES:
        readings.put(*rows)
    readings.run(deduplicated=True)
    assert len(batches) > 3
    assert [calls for number, (calls, _) in batches.items() if number and calls > MOST_CALLS] == []
    for number, (_, commit) in batches.items():
        assert commit == (readings.epoch / "commits" / str(number)).read_text()
        assert [*json.loads(commit.removeprefix("v2"))["stateUniqueIds"]] == ["0", "1"]


def test_rows_that_are_too_many_for_the_driver_are_recorded_beside_it(
    story: Readings,
    fail_at: Callable[[str, int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are completed from there, and removed with the record; also in a folder whose name looks like a pattern."""
    monkeypatch.setattr(type(story), "checkpoint", story.folder / "check[1]{a,b}point")
    monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    fail_in_batch_2(story, fail_at, "between-delta")
    batch = recorded(story, 2)
    assert batch is not None
    assert set(batch.large) == {"results", "rejected"}
    assert [rows.num_rows for name, rows in batch.rows.items() if name in batch.large] == [0, 0]
    assert all((story.epoch / folder).is_dir() for folder in batch.large.values())
    monkeypatch.setattr(processor, "DRIVER_BYTES", 2**24)
    part = next(path for folder in batch.large.values() for path in (story.epoch / folder).glob("*.parquet"))
    away = part.rename(story.folder / part.name)
    with pytest.raises(CorruptState, match=r"is damaged: it has not the rows that were recorded, .*'results': "):
        story.start()
    away.rename(part)
    story.run(reject=LATE)
    assert story.log() == LOG
    assert story.log("view") == LOG[1:]
    assert reasons(story) == ["NULL_EVENT_TIME", "NULL_EVENT_TIME"]
    assert not [path for path in (story.epoch / "panekeeper" / "prepared").iterdir() if path.is_dir()]


def test_a_table_that_was_moved_gets_the_batch_where_it_is(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """It is known by its id, whatever its folder is called."""
    fail_in_batch_2(story, fail_at, "before-delta")
    (story.folder / "log").rename(story.folder / "moved")
    (story.folder / "log_quarantine").rename(story.folder / "moved_quarantine")
    (story.folder / "log_metrics").rename(story.folder / "moved_metrics")
    job = story.computed().to_delta(story.folder / "moved", view=story.folder / "view")
    assert job.start(checkpoint=story.checkpoint, trigger="available_now").await_end(timeout=300)
    assert story.log("moved") == LOG
    assert not (story.folder / "log").exists()


def test_a_query_of_ones_own_does_not_pass_over_a_recorded_batch(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """The checkpoint is that of a job with tables, and a query of one's own needs another one."""
    fail_in_batch_2(story, fail_at, "before-delta")
    with pytest.raises(CheckpointError, match=r"is the checkpoint of a job with tables .* give it a folder of its own"):
        story.computed().transform(checkpoint=story.checkpoint)
    story.run()
    assert story.log() == LOG


@pytest.mark.release
def test_to_complete_a_batch_changes_no_setting_of_the_session(
    story: Readings, fail_at: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other threads write with it meanwhile: under the transaction of the batch, Delta would skip what they write."""
    job = story.computed().to_delta(story.folder / "log", view=story.folder / "view", cluster_by="sensor")
    fail_at("before-delta", 2)
    with pytest.raises(JobFailed):
        job.start(checkpoint=story.checkpoint, trigger="available_now").await_end(timeout=300)
    found: list[str | None] = []
    merge = spark_table.repeat_while_others_commit

    def look_and_merge(path: str, commit: Callable[[], None]) -> None:
        found.append(story.spark.conf.get("spark.databricks.delta.write.txnAppId", None))
        merge(path, commit)

    monkeypatch.setattr(spark_table, "repeat_while_others_commit", look_and_merge)
    materialize = "spark.databricks.delta.merge.materializeSource"
    with session_settings(story.spark, {materialize: "all"}):
        assert job.start(checkpoint=story.checkpoint, trigger="available_now").await_end(timeout=300)
        assert story.spark.conf.get(materialize) == "all"
    assert found
    assert set(found) == {None}
    assert story.log("view") == LOG[1:]


class _Drawn(agg.UserAggregate):
    """Another text each time it is computed."""

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: Any) -> int:
        return state

    def result(self, state: int) -> str:
        return uuid.uuid4().hex


@pytest.mark.release
def test_large_rows_are_written_as_they_are_recorded_whatever_becomes_of_the_cache(
    story: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an executor is lost between two tables: log, view and sink have what was computed once."""
    monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    got: list[str] = []

    def clear_and_take(rows: DataFrame, _batch: int) -> None:
        rows.sparkSession.catalog.clearCache()
        got.extend(row["drawn"] for row in rows.collect())

    stream = windowed(story.stream(), name="readings", partition_by="sensor", event_time="at", key_groups=4)
    computed = stream.window(TimeInterval(60, discard_age=120)).aggregate(
        drawn=agg.user(_Drawn(), "value", output="string")
    )
    job = computed.to_delta(story.folder / "log", view=story.folder / "view").foreach_batch(clear_and_take)
    assert job.start(checkpoint=story.checkpoint, trigger="available_now").await_end(timeout=300)
    log = sorted(row["drawn"] for row in story.rows("log"))
    assert len(log) == len(LOG)
    assert sorted(got) == log
    assert {row["drawn"] for row in story.rows("view")} <= {*log}


@pytest.mark.extended
def test_a_batch_whose_large_rows_are_computed_otherwise_before_they_are_recorded_is_run_again(
    story: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where an executor is lost between the plan and the record: small and large outputs are of one computation."""
    monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    stream = windowed(story.stream(), name="readings", partition_by="sensor", event_time="at", key_groups=4)
    computed = stream.window(TimeInterval(60, discard_age=120)).aggregate(
        drawn=agg.user(_Drawn(), "value", output="string")
    )
    job = computed.to_delta(story.folder / "log")
    written = batch_output.write_large_rows

    def clear_and_write(packed: DataFrame, *rest: Any) -> None:
        packed.sparkSession.catalog.clearCache()
        written(packed, *rest)

    with monkeypatch.context() as lost:
        lost.setattr(batch_journal, "write_large_rows", clear_and_write)
        with pytest.raises(JobFailed, match="is not recorded: its rows were lost"):
            job.start(checkpoint=story.checkpoint, trigger="available_now").await_end(timeout=300)
    assert job.start(checkpoint=story.checkpoint, trigger="available_now").await_end(timeout=300)
    assert len(story.rows("log")) == len(LOG)


_PASSES_OVER = {"spark.sql.files.ignoreCorruptFiles": "true", "spark.sql.files.ignoreMissingFiles": "true"}


def test_recorded_rows_that_cannot_be_read_are_not_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever the session does with such files of its own; a store that is away for a moment looks like that."""
    folder = tmp_path / "rows"
    rows = spark.range(4, numPartitions=2).selectExpr("'log' AS tag", "id AS n", "CAST('x' AS BINARY) AS body")
    batch_output.write_large_rows(rows, ["log"], str(folder))
    with session_settings(spark, _PASSES_OVER):
        assert batch_output.read_large_rows(spark, str(folder)).count() == 4
        one = next(folder.glob("part-*.parquet"))
        one.write_bytes(b"-" * one.stat().st_size)
        with pytest.raises(Py4JJavaError, match="FAILED_READ_FILE"):
            batch_output.read_large_rows(spark, str(folder)).collect()
