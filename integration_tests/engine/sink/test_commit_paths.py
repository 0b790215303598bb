"""Who commits a batch, the library in this process or Spark, makes no difference to what stands in the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from delta.tables import DeltaTable
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from integration_tests.engine.readings import FILES, LOG
from integration_tests.selection import first_before_release
from panekeeper import Count, Event, EventType, JobFailed, Operator, TimeInterval, Tumbling, agg, windowed
from panekeeper.framework.declarations.errors import DeclarationError, SinkError
from panekeeper.framework.engine.flow import processor
from panekeeper.framework.engine.session.columns import arrow_schema
from panekeeper.framework.engine.session.settings import session_settings
from panekeeper.framework.engine.sink import spark_table
from panekeeper.framework.engine.sink.delta_tables import DeltaTables
from panekeeper.framework.engine.sink.library_table import LibraryTable
from panekeeper.recovery.upkeep.table_files import compact
from panekeeper.state.checkpoint.folder import JOB_FILE
from panekeeper.state.checkpoint.job_record import JobRecord
from panekeeper.state.prepared import TableWrite

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from integration_tests.engine.conftest import Readings
    from panekeeper import Emit

VIEW = [row for row in LOG if row != LOG[0]]


@pytest.fixture
def change_feeds(spark: SparkSession) -> Iterator[None]:
    """New tables keep a change feed, which the library is not trusted to write."""
    name = "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    spark.conf.set(name, "true")
    yield
    spark.conf.unset(name)


def writers(readings: Readings, table: str) -> set[str]:
    """Who made the commits with rows: "delta-rs" or "Apache-Spark"."""
    history = DeltaTable.forPath(readings.spark, str(readings.folder / table)).history()
    infos = history.where("operation in ('WRITE', 'MERGE')").select("engineInfo").collect()
    return {"delta-rs" if info[0].startswith("delta-rs") else info[0].partition("/")[0] for info in infos}


def merge_by_spark(
    rows: DataFrame, path: str, condition: str, transaction: str, number: int, newer_by: str = "firing"
) -> None:
    """As the sink does."""
    spark_table.merge(
        rows.sparkSession,
        rows,
        path,
        condition=condition,
        newer_by=newer_by,
        is_copy=True,
        transaction=transaction,
        number=number,
    )


def put_all(readings: Readings) -> None:
    """All files of the story."""
    for rows in FILES:
        readings.put(*rows)


def test_small_outputs_are_committed_without_spark(readings: Readings) -> None:
    """All tables that a small job writes."""
    put_all(readings)
    readings.run()
    assert {table: writers(readings, table) for table in ("log", "view", "log_quarantine", "log_metrics")} == {
        table: {"delta-rs"} for table in ("log", "view", "log_quarantine", "log_metrics")
    }


@pytest.mark.parametrize("point", first_before_release(("between-delta",), ("after-delta-commit",)))
@pytest.mark.usefixtures("change_feeds")
def test_tables_that_the_library_cannot_write_are_written_by_spark(
    readings: Readings, fail_at: Callable[[str, int], None], point: str
) -> None:
    """With the same rows, also when the batch is run again."""
    put_all(readings)
    fail_at(point, 2)
    with pytest.raises(JobFailed, match="the line went dead"):
        readings.run()
    readings.run()
    assert writers(readings, "log") == writers(readings, "view") == {"Apache-Spark"}
    assert readings.log() == LOG
    assert readings.log("view") == VIEW


@pytest.mark.parametrize("first", ["the library", pytest.param("Spark", marks=pytest.mark.release)])
def test_a_batch_that_one_of_them_committed_is_skipped_by_the_other(
    readings: Readings, fail_at: Callable[[str, int], None], monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """All tables were committed before the failure; the repeat takes the other way."""
    small = processor.DRIVER_BYTES
    put_all(readings)
    fail_at("after-delta-commit", 2)
    monkeypatch.setattr(processor, "DRIVER_BYTES", small if first == "the library" else 0)
    with pytest.raises(JobFailed, match="the line went dead"):
        readings.run()
    monkeypatch.setattr(processor, "DRIVER_BYTES", 0 if first == "the library" else small)
    readings.run()
    assert writers(readings, "log") == {"delta-rs", "Apache-Spark"}
    assert readings.log() == LOG
    assert readings.log("view") == VIEW


@pytest.mark.extended
def test_a_later_epoch_lets_no_process_of_an_earlier_one_commit(readings: Readings) -> None:
    """It raises in the library, and before Spark's append, which Spark would skip, as the version is known."""
    put_all(readings)
    readings.run()
    record = JobRecord.from_json(json.loads((readings.epoch / JOB_FILE).read_text()))
    paused = LibraryTable(str(readings.folder / "log"), sleep=lambda _: None)
    readings.declare().reset_to_initial_state(checkpoint=readings.checkpoint, confirm="readings")
    readings.run()
    log = readings.log()
    rows = readings.frame("log").limit(1)
    arrow: pa.Table = rows.toArrow()
    with pytest.raises(SinkError, match="a later epoch"):
        paused.append(arrow, record.transaction("log"), 10_000)
    writer = rows.write.format("delta").mode("append").option("txnAppId", record.transaction("log"))
    writer.option("txnVersion", 10_000).save(str(readings.folder / "log"))
    path = str(readings.folder / "log")
    id_ = spark_table.read_table(readings.spark, path).id
    write = TableWrite(role="log", path=path, table=id_, transaction=record.transaction("log"), after=0, rows="rows")
    with pytest.raises(SinkError, match="a later epoch"):
        DeltaTables({path: None}).append(readings.spark, arrow, write, 10_000, job=record.id)
    assert readings.log() == log


@pytest.mark.release  # the append of one is refused by the same transactions
def test_a_later_epoch_lets_no_earlier_one_merge(readings: Readings) -> None:
    """As above, for the view: a row that would be newer is not taken."""
    put_all(readings)
    readings.run()
    record = JobRecord.from_json(json.loads((readings.epoch / JOB_FILE).read_text()))
    path = str(readings.folder / "view")
    paused = LibraryTable(path, sleep=lambda _: None)
    readings.declare().reset_to_initial_state(checkpoint=readings.checkpoint, confirm="readings")
    readings.run()
    view = readings.log("view")
    newer = readings.spark.read.format("delta").load(path).withColumn("refinement", F.lit(99))
    transaction = record.transaction("view")
    with pytest.raises(SinkError, match="a later epoch"):
        paused.merge(newer.toArrow(), transaction, 10_000, keys=["sensor", "pane_start"], newer_by="refinement")
    merge_by_spark(newer, path, "t.sensor = s.sensor", transaction, 10_000, "refinement")
    assert readings.log("view") == view


EVERY_TYPE = """
    true AS bool, CAST(-128 AS TINYINT) AS byte, CAST(-32768 AS SMALLINT) AS short, -2147483648 AS int,
    CAST('-9223372036854775808' AS BIGINT) AS long, CAST('NaN' AS FLOAT) AS float,
    CAST('-Infinity' AS DOUBLE) AS double, CAST('-0.01' AS DECIMAL(5, 2)) AS cents,
    CAST('1234567890123456789012345678.0123456789' AS DECIMAL(38, 10)) AS decimal,
    '\u00e9\U0001f600' AS string, X'00FF' AS binary, DATE'0001-01-01' AS date,
    TIMESTAMP'9999-12-30 23:59:59.999999Z' AS time, TIMESTAMP'0001-01-02 00:00:00Z' AS long_ago,
    TIMESTAMP_NTZ'1969-12-31 23:59:59.999999' AS wall, ARRAY(1.5D, NULL) AS list, MAP('a', 1L, 'b', NULL) AS map,
    NAMED_STRUCT('x', ARRAY(DATE'2024-02-29'), 'y', CAST(NULL AS STRING)) AS struct,
    ARRAY(NAMED_STRUCT('m', MAP(1, TIMESTAMP'2024-01-01 00:00:00.000001Z'))) AS nested, 'x' AS `a.b`
"""
"""What a column of results may be: all that both Arrow and Delta have."""


def test_both_write_the_same_values_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    """Appended and merged: a reader finds equal schemas and equal rows, whoever wrote them; and so with nulls."""
    filled = spark.sql(f"SELECT 1 AS key, {EVERY_TYPE}, 0L AS firing")
    empty = spark.sql("SELECT 2 AS key").join(filled.drop("key").where("false"), F.lit(True), "left")
    filled.unionByName(empty).write.parquet(str(tmp_path / "rows"))
    frame = spark.read.parquet(str(tmp_path / "rows"))  # where every field may be null, as in a table
    schema = arrow_schema(frame.schema)
    rows = frame.toArrow().cast(schema)
    newer = frame.withColumn("firing", F.lit(1).cast("long")).withColumn("key", F.col("key") + 1).toArrow().cast(schema)
    by_library, by_spark = str(tmp_path / "library"), str(tmp_path / "spark")
    for path in (by_library, by_spark):
        DeltaTable.create(spark).location(path).addColumns(frame.schema).execute()
    commits = LibraryTable(by_library)
    assert commits.append(rows, "a", 0)
    assert commits.merge(newer, "a", 1, keys=["key"], newer_by="firing")
    spark_table.append(spark.createDataFrame(rows, frame.schema), by_spark, "a", 0)
    merge_by_spark(spark.createDataFrame(newer, frame.schema), by_spark, "t.key = s.key", "a", 1)

    found, expected = (spark.read.format("delta").load(path).orderBy("key") for path in (by_library, by_spark))
    assert found.schema == expected.schema == DeltaTable.forPath(spark, by_spark).toDF().schema
    assert list(map(repr, found.collect())) == list(map(repr, expected.collect()))
    assert found.toArrow().schema == expected.toArrow().schema
    assert [row["key"] for row in found.collect()] == [1, 2, 3]


@pytest.mark.parametrize("written_by", first_before_release(("spark",), ("library",)))
def test_a_struct_with_a_field_that_is_not_null_can_be_collected_and_null(readings: Readings, written_by: str) -> None:
    """Delta has nothing that is NOT NULL in a list, and takes a null struct for one that violates its fields' rules."""
    point = F.struct(F.lit(1).alias("x"), F.col("value").alias("y"))
    inner = F.when(F.col("value") > 1, F.struct(F.array(F.lit(1)).alias("x")))
    columns = {
        "point": point,
        "inner": inner,
        "rank": F.lit(None).cast("int"),
        "even": F.when(F.col("value") % 2 == 0, point),
    }
    rows = readings.stream().withColumns(columns)
    stream = windowed(rows, name="points", partition_by="sensor", event_time="at")
    computed = stream.window(TimeInterval(60)).aggregate(
        points=agg.collect("point"),
        newest=agg.last("point"),
        best=agg.arg_max("rank", "point"),
        even=agg.last("even"),
        inner=agg.arg_min("value", "inner"),
    )
    readings.put(("a", "10:00:10", 1), ("a", "10:00:20", 2), ("a", "10:05:00", 4))
    layout: dict[str, Any] = {} if written_by == "library" else {"cluster_by": "sensor"}
    job = computed.to_delta(readings.folder / "log", view=readings.folder / "view", **layout)
    assert job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)
    for table in ("log", "view"):
        [row] = [row for row in readings.frame(table).collect() if row["pane_start"].minute == 0]
        points = [(one.x, one.y) for one in (*row["points"], row["newest"], row["even"])]
        assert points == [(1, 1), (1, 2), (1, 2), (1, 2)]
        assert (row["best"], row["inner"]) == (None, None)


def test_a_result_with_a_void_inside_is_refused(readings: Readings) -> None:
    """No table could take a batch with it; a column that is in no result may have one."""
    rows = readings.stream().withColumn("nothing", F.lit(None)).withColumn("pair", F.struct("value", "nothing"))
    stream = windowed(rows, name="x", partition_by="sensor", event_time="at", watermark=0).window(TimeInterval(60))
    for column in ("nothing", "pair"):
        with pytest.raises(DeclarationError, match=r"'all' is of .*, and Delta stores no void"):
            stream.aggregate(all=agg.collect(column))
    stream.operator(EachEvent(), output="type string")


class EachEvent(Operator):
    """Emits a row for each event of a pane; only that of a TRIGGER has a refinement."""

    events = frozenset({EventType.INSERTION, EventType.TRIGGER, EventType.CLOSE})

    def handle_event(self, event: Event, emit: Emit) -> None:
        emit(event=event.type.value, n=event.table.num_rows)


@pytest.mark.parametrize(("files", "writer"), first_before_release((3, "the library"), (1, "Spark")))
def test_the_view_has_the_newest_row_of_each_pane_whatever_an_operator_emits(
    readings: Readings, monkeypatch: pytest.MonkeyPatch, files: int, writer: str
) -> None:
    """However the stream is cut, and whoever commits: rows without a refinement, several of a pane in a batch."""
    if writer == "Spark":
        monkeypatch.setattr(processor, "DRIVER_BYTES", 0)
    rows = [("newest", "10:00:10", 1), ("newest", "10:01:30", 2), ("newest", "10:09:00", 3)]
    for at in range(files):
        readings.put(*rows[at * 3 // files : (at + 1) * 3 // files])
    rows_of_newest = readings.stream().withColumnRenamed("sensor", "newest")
    stream = windowed(rows_of_newest, name="events", partition_by="newest", event_time="at")
    computed = stream.window(TimeInterval(60, discard_age=60)).operator(EachEvent(), output="event string, n bigint")
    job = computed.to_delta(readings.folder / "log", view=readings.folder / "view")
    job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end()
    view = readings.rows("view")
    found = [(row["newest"], row["pane_start"] and row["pane_start"].minute, row["event"]) for row in view]
    assert sorted(found) == [("newest", 0, "close"), ("newest", 1, "close"), ("newest", 9, "insertion")]


@pytest.mark.release
def test_tables_in_a_folder_that_the_library_does_not_reach_are_written_by_spark(readings: Readings) -> None:
    """It panics about a bracket in the name. Spark compacts such tables, too."""
    for rows in FILES:
        readings.put(*rows)
    tables = readings.folder / "o[1]"
    job = readings.computed().to_delta(tables / "log", view=tables / "view")
    assert job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)
    assert readings.log("o[1]/log") == LOG
    assert readings.log("o[1]/view") == VIEW
    assert writers(readings, "o[1]/log") == {"Apache-Spark"}
    assert compact(readings.spark, str(tables / "log"))[1] == 1


@pytest.mark.release
@pytest.mark.usefixtures("change_feeds")
def test_a_time_without_zone_stays_what_it_is_if_spark_writes_it(readings: Readings) -> None:
    """Also one that the session's zone does not have, in a night in which its clocks go forward."""
    skipped, after = "2024-03-10 02:30:00", "2024-03-10 03:30:00"
    with session_settings(readings.spark, {"spark.sql.session.timeZone": "America/New_York"}):
        wall = F.expr(f"CASE WHEN value < 4 THEN TIMESTAMP_NTZ'{skipped}' ELSE TIMESTAMP_NTZ'{after}' END")
        stream = windowed(readings.stream().withColumn("wall", wall), name="walls", partition_by="wall")
        computed = stream.window(Tumbling(Count(1))).aggregate(total=agg.sum("value"), last=agg.last("wall"))
        for values in ((1, 4), (2, 8)):
            readings.put(*[("a", "10:00:10", value) for value in values])
        given: list[str] = []
        job = computed.to_delta(readings.folder / "log", view=readings.folder / "view")
        job = job.foreach_batch(lambda rows, _: given.append(rows.schema["wall"].dataType.typeName()))
        job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end()
    assert writers(readings, "view") == {"Apache-Spark"}
    for table, totals in (("log", {1: skipped, 4: after, 2: skipped, 8: after}), ("view", {2: skipped, 8: after})):
        found = {row["total"]: (str(row["wall"]), str(row["last"])) for row in readings.rows(table)}
        assert found == {total: (time, time) for total, time in totals.items()}
    assert set(given) == {"timestamp_ntz"}
