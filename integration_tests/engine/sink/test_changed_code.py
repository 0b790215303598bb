"""A batch that some tables have already is run again by the same code only."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from framework.engine.flow.code_fields import code_of
from framework.engine.session.required_settings import session_settings
from framework.engine.sources.plan import plan_digest
from integration_tests.engine.readings import FILES, LOG
from panekeeper import (
    CheckpointError,
    Count,
    IncompatibleCheckpoint,
    JobFailed,
    Time,
    TimeInterval,
    Tumbling,
    agg,
    windowed,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from integration_tests.engine.conftest import Readings

LATE = {"late": "value = 16"}
"""Refuses a row of batch 2, which is a result already: it would be in the log and in the quarantine."""


def fail_in_batch_2(readings: Readings, fail_at: Callable[[str, int], None], point: str, **options: Any) -> None:
    """Run a job that fails at a point of the batch that fires panes, and brings a row to the quarantine."""
    fail_at(point, 2)
    with pytest.raises(JobFailed):
        readings.run(**options)


@pytest.fixture
def story(readings: Readings) -> Readings:
    """The readings, and one without a time in batch 2."""
    for number, rows in enumerate(FILES):
        readings.put(*rows, *([("d", None, 3)] if number == 2 else []))
    return readings


def test_other_code_does_not_complete_a_batch_that_a_table_has(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """One more rule: refused, with the way out; the program as it was completes the batch, then the new one starts."""
    fail_in_batch_2(story, fail_at, "between-delta")
    for changed in ({"reject": LATE}, {"order_by": "value"}, {"max_ahead": None}):
        message = rf"batch 2 of .*\n  {next(iter(changed))}: .*\n.*accept_changed_code=2"
        with pytest.raises(IncompatibleCheckpoint, match=message):
            story.start(**changed)
    lenient = {"spark.sql.legacy.timeParserPolicy": "LEGACY"}  # may take a row that was refused
    with (
        session_settings(story.spark, lenient),
        pytest.raises(IncompatibleCheckpoint, match="timeParserPolicy"),
    ):
        story.start()
    story.run()
    story.put(("c", "10:09:31", 16))
    story.run(reject=LATE)

    assert story.log() == LOG
    assert story.log("view") == LOG[1:]
    reasons = sorted(row["reason"] for row in story.rows("log_quarantine"))
    assert reasons == ["NULL_EVENT_TIME", "NULL_EVENT_TIME", "late"]
    assert sum(row["rows_in"] for row in story.rows("log_metrics")) == 10


@pytest.mark.extended
def test_code_can_be_corrected_while_no_table_has_the_batch_and_later_if_one_insists(
    story: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """What fails a batch before its first commit can be corrected; then the corrected code is what counts.

    The rows of the batch must be there, too: Spark leaves out a file that is gone, without an error.
    """
    fail_in_batch_2(story, fail_at, "before-delta")
    fail_in_batch_2(story, fail_at, "between-delta", reject={"never": "value < 0"})
    job = story.declare()
    read = story.folder / "in" / "0002.json"
    away = read.rename(story.folder / "0002.json")
    with pytest.raises(CheckpointError, match=r"batch 2 .* are gone: file:\S*/in/0002\.json\. .*accept_changed_code=2"):
        job.start(checkpoint=story.checkpoint, trigger="available_now")
    away.rename(read)
    for accepted in (None, 1):
        with pytest.raises(IncompatibleCheckpoint, match="reject"):
            job.start(checkpoint=story.checkpoint, trigger="available_now", accept_changed_code=accepted)
    job.start(checkpoint=story.checkpoint, trigger="available_now", accept_changed_code=2).await_end(timeout=300)
    assert story.log() == LOG


def test_the_same_declaration_has_the_same_code_and_another_plan_another(readings: Readings) -> None:
    """Ids of expressions, seeds, watermarks, lambda functions and the folder it reads differ in each plan."""

    def code(bound: int, **options: Any) -> dict[str, Any]:
        rows = readings.stream().where(f"value > {bound}").withWatermark("at", "1 minute")
        rows = rows.withColumn("r", F.rand()).withColumn("id", F.expr("uuid()")).sample(0.9)
        rows = rows.withColumn("more", F.transform(F.array("value"), lambda value: value + 1))
        stream = windowed(rows, name="x", partition_by="sensor", event_time="at", **options)
        job = stream.window(TimeInterval(60)).aggregate(n=agg.count()).to_delta(readings.folder / "log")
        return code_of(job.pipeline)

    one_operator = {"spark.sql.streaming.statefulOperator.allowMultiple": "false"}  # a stream may have a watermark then
    with session_settings(readings.spark, one_operator):
        first = code(3)
        assert code(3) == first
        assert {name for name, one in code(4).items() if one != first[name]} == {"stream"}
        assert {name for name, one in code(3, on_error="fail").items() if one != first[name]} == {"on_error"}

    def tumbling(**options: Any) -> dict[str, Any]:
        window = windowed(readings.stream(), name="x").window(Tumbling(Time(30), **options))
        return code_of(window.aggregate(n=agg.count()).to_delta(readings.folder / "log").pipeline)

    assert tumbling(catch_up="once") == tumbling()

    def text(value: str, column: str = "v_1", bound: str = "v > (SELECT max(id) FROM range(9))") -> str:
        more = F.transform(F.array("value"), lambda one: one + 1).alias("more")
        rows = readings.stream().withColumns({"v_1": F.col("value"), "v_2": F.lit(1)})
        rows = rows.select(more, F.col(column).alias("v")).where(F.col("v").cast("string") != value)
        rows = rows.where(F.expr(bound))
        window = windowed(rows, name="x").window(Tumbling(Time(30)))
        return str(code_of(window.aggregate(n=agg.count()).to_delta(readings.folder / "log").pipeline)["stream"])

    texts = ["#1", "#2", "u@1", "u@2", "rand(1)", *(f"{one:08x}-0000-0000-0000-{0:012x}" for one in (1, 2))]
    assert len({text(one) for one in texts}) == len(texts)
    assert text("#1") == text("#1")
    assert text("#1") not in {text("#1", "v_2"), text("#1", bound="v > (SELECT min(id) FROM range(9))")}


def plan_of(readings: Readings, *steps: Callable[[DataFrame], DataFrame]) -> set[str]:
    """The digests of plans that begin with the readings, one for each step."""
    return {plan_digest(step(readings.stream())) for step in steps}


def test_plans_differ_by_the_column_that_they_name_and_by_what_spark_does_not_write_out(readings: Readings) -> None:
    """One of two columns of a name, a variable of nested functions, and the end of a long list: all count."""
    static = readings.spark.range(5).selectExpr("id AS value", "string(id) AS sensor")
    fields = ", ".join(f"f{number} INT" for number in range(40))

    def joined(*, of_stream: bool) -> Callable[[DataFrame], DataFrame]:
        return lambda rows: rows.join(static, "value").where((rows if of_stream else static)["sensor"] != "a")

    def nested(*, is_less: bool) -> Callable[[DataFrame], DataFrame]:
        def within(one: Column) -> Column:
            return F.exists("many", lambda other: other < one if is_less else one < other)

        return lambda rows: rows.select(F.array("value").alias("many")).select(F.filter("many", within))

    def wide(option: str, field: str = "last INT") -> Callable[[DataFrame], DataFrame]:
        return lambda rows: rows.select(F.from_json("sensor", f"{fields}, {field}", {"dateFormat": option}))

    def like(last: str) -> Callable[[DataFrame], DataFrame]:
        patterns = ", ".join(f"'{one}'" for one in [*range(40), last])
        return lambda rows: rows.where(f"sensor LIKE ANY ({patterns})")

    pairs = [
        (joined(of_stream=True), joined(of_stream=False)),
        (nested(is_less=True), nested(is_less=False)),
        (wide("yyyy"), wide("yy")),
        (wide("yyyy"), wide("yyyy", "last BIGINT")),
        (like("a"), like("b")),
    ]
    assert [len(plan_of(readings, *pair)) for pair in pairs] == [2] * len(pairs)
    assert [len(plan_of(readings, one, one)) for pair in pairs for one in pair] == [1] * 2 * len(pairs)

    def viewed(rows: DataFrame) -> DataFrame:
        rows.createOrReplaceTempView("seen")
        return readings.spark.sql("WITH some AS (SELECT * FROM seen) SELECT value FROM some").observe(
            "counts", F.count("*")
        )

    assert len(plan_of(readings, viewed, viewed)) == 1
    with ThreadPoolExecutor() as threads:  # where Java has no session that is active
        elsewhere = threads.submit(plan_of, readings, wide("yyyy")).result()
    assert elsewhere == plan_of(readings, wide("yyyy"))


@pytest.mark.extended
def test_options_of_a_source_are_code_but_where_it_is_and_how_much_a_batch_takes(readings: Readings) -> None:
    """They decide what is in a row; so do the types of its columns, also of one that only a rule reads."""

    def code(rows: DataFrame, **options: Any) -> dict[str, Any]:
        window = windowed(rows, name="x", **options).window(Tumbling(Time(30)))
        return code_of(window.aggregate(n=agg.count()).to_delta(readings.folder / "log").pipeline)

    def read_with(columns: str = "value bigint", **options: str) -> dict[str, Any]:
        rows = readings.spark.readStream.schema(columns).options(**options).json(str(readings.folder / "in"))
        return code(rows, reject={"no": "value is null"})

    assert read_with(maxFilesPerTrigger="7", cleanSource="off") == read_with()
    others = [read_with(timestampFormat="yyyy"), read_with(mode="DROPMALFORMED"), read_with("value int")]
    folder = readings.folder
    readings.folder = folder / "elsewhere"  # a path decides which columns partitions have
    (readings.folder / "in").mkdir(parents=True)
    others.append(read_with())
    readings.folder = folder
    for other in others:
        assert {name for name, one in other.items() if one != read_with()[name]} == {"source"}

    cast = [readings.spark.readStream.schema(f"value {one}").json(str(folder / "in")) for one in ("int", "double")]
    first, other_schema = (code(rows.select(F.col("value").cast("double")))["source"] for rows in cast)
    assert first != other_schema

    rates = [readings.spark.readStream.format("rate").option("rowsPerSecond", rows).load() for rows in (5, 5, 6)]
    first, same, other_rate = [code(rate)["source"] for rate in rates]
    assert first == same != other_rate


@pytest.mark.extended
def test_a_batch_of_several_files_has_its_rows_in_the_same_order_on_any_number_of_cores(
    readings: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """Spark cuts them by that number, and reads the pieces by size. Log and state are of the same order then."""
    for start, count in ((0, 100), (500, 70)):
        readings.put(*[("a", "10:00:00", value) for value in range(start, start + count)])

    def run(cores: int) -> None:
        # What Spark takes the number of cores for; files of a few bytes are cut like large ones.
        splits = {"spark.sql.leafNodeDefaultParallelism": str(cores), "spark.sql.files.openCostInBytes": "0"}
        with session_settings(readings.spark, splits):
            stream = readings.spark.readStream.schema("sensor string, value bigint").json(str(readings.folder / "in"))
            window = windowed(stream, name="readings", partition_by="sensor").window(Tumbling(Count(9)))
            job = window.aggregate(values=agg.collect("value")).to_delta(readings.folder / "log")
            job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end()

    fail_at("after-delta-commit", 0)
    with pytest.raises(JobFailed):
        run(1)
    readings.put(*[("a", "10:00:00", value) for value in range(900, 910)])
    run(4)
    log = sorted((row["firing"], row["values"]) for row in readings.rows("log"))
    assert [value for _, values in log for value in values] == [*range(100), *range(500, 570), *range(900, 910)]
