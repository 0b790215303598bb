"""`panekeeper plan`: what it says of a job file is what a start of that job does."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F  # noqa: N812

from panekeeper import Calendar, CheckpointError, SinkError, TimeInterval, agg, windowed
from panekeeper.cli.command import ExitCode
from panekeeper.cli.main import main
from panekeeper.recovery.savepoint.create import savepoint
from panekeeper.recovery.upgrade.check import check_upgrade
from panekeeper.recovery.upgrade.job_file import load_job
from tests.framework.core.panes.test_zone_data import new_york_as
from tests.project.sources import ROOT, blocks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from integration_tests.engine.conftest import Readings
    from panekeeper.framework.builder.outputs import DeltaJob

PROGRAM = """
from panekeeper import TimeInterval, agg, session, windowed

spark = session("readings")
rows = spark.readStream.schema("sensor string, at timestamp, value bigint").json("{folder}/in")
job = (
    windowed(rows, name="readings", partition_by="sensor", event_time="at", key_groups=2, watermark={watermark})
    .window(TimeInterval(60, discard_age=120))
    .aggregate(total=agg.sum("value"), {aggregates})
    .to_delta("{folder}/log", view="{folder}/view")
    .start(checkpoint="{folder}/checkpoint")
)
"""

CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"window": TimeInterval(30, discard_age=120)}, "needs a flush"),
    ({"total": "max"}, "needs a flush"),
    ({"key_groups": 4}, "needs a flush"),
    ({"partition_by": None}, "needs a flush"),
    ({"deduplicated": True}, "needs a flush"),
    ({"name": "others"}, "impossible"),
    ({"watermark": 5, "reject": {"odd": "value % 2 = 1"}}, "compatible"),
]


def test_plan_reports_what_a_start_does(
    readings: Readings, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For declarations, and for job files on the command line, of which nothing is started."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    readings.put(("a", "10:00:10", 1), ("b", "10:00:20", 2))
    readings.run()
    place = tmp_path / "savepoints"
    savepoint(readings.checkpoint, "one", to=place, spark=readings.spark)
    before = readings.numbers("offsets")

    def plan(**filled: object) -> tuple[int, dict[str, Any]]:
        (tmp_path / "program.py").write_text(PROGRAM.format(folder=readings.folder, **filled))
        code = main(["plan", str(place), "one", str(tmp_path / "program.py"), "--json"])
        return code, json.loads(capsys.readouterr().out)

    code, printed = plan(aggregates="n=agg.count()", watermark=30)
    assert (code, printed["verdict"]) == (0, "compatible"), printed
    code, printed = plan(aggregates="n=agg.count(), top=agg.max('value')", watermark=30)
    assert (code, printed["verdict"]) == (0, "compatible"), printed
    kept = {one["item"]: one["why"] for one in printed["items"]}
    assert "begins with the first pane that has no rows yet" in kept["aggregate top"]
    code, printed = plan(aggregates="n=agg.count(), all=agg.collect('value')", watermark=30)
    assert (code, printed["verdict"]) == (ExitCode.FAILED, "needs a flush")
    troubles = [one["item"] for one in printed["items"] if one["verdict"] != "compatible"]
    assert troubles == ["aggregate all", "output all", "table log", "table view"]
    assert readings.numbers("offsets") == before
    assert not readings.spark.streams.active

    for options, verdict in CHANGES:
        assert check_upgrade(place, "one", readings.declare(**options)).verdict.value == verdict, options
        if verdict == "compatible":
            readings.run(**options)
        else:
            with pytest.raises(CheckpointError):
                readings.start(**options)


def declared(readings: Readings, age: int, **aggregates: agg.Aggregate) -> DeltaJob:
    """The readings by minutes, with any aggregates."""
    stream = windowed(readings.stream(), name="readings", partition_by="sensor", event_time="at", key_groups=2)
    window = stream.window(TimeInterval(60, discard_age=age))
    return window.aggregate(**aggregates).to_delta(readings.folder / "log", view=readings.folder / "view")


@pytest.mark.extended
def test_a_declaration_changes_with_its_state_wherever_the_start_is_killed(
    readings: Readings, fail_at: Callable[[str, int], None]
) -> None:
    """After each step of an interrupted start, the old and the new program go on; and back to the old one in the end.

    A larger discard age holds for panes that are open, `top` begins with the first pane without rows, `n` is null.
    """
    old = {"age": 120, "total": agg.sum("value"), "n": agg.count()}
    new = {"age": 600, "top": agg.max("value"), "total": agg.sum("value")}

    def run(options: dict[str, Any]) -> None:
        job = declared(readings, **options).start(checkpoint=readings.checkpoint, trigger="available_now")
        assert job.await_end(timeout=300)

    def shown() -> list[tuple[Any, ...]]:
        rows = [{"top": None, "n": None} | row for row in readings.rows("log")]
        return sorted((f"{r['pane_start']:%H:%M}", r["refinement"], r["total"], r["n"], r["top"]) for r in rows)

    readings.put(("a", "10:00:10", 1))
    run(old)
    for step, following in ((1, old), (3, old), (2, old), (1, new)):
        fail_at("during-upgrade", step)
        with pytest.raises(ConnectionError):
            run(new)
        run(following)
    readings.put(("a", "10:00:20", 4), ("a", "10:01:30", 2))
    readings.put(("a", "10:05:00", 9))
    run(new)
    assert shown() == [("10:00", 0, 5, None, None), ("10:01", 0, 2, None, 2)]
    readings.put(("a", "10:01:40", 8))  # its pane would be closed by the old discard age
    readings.put(("a", "10:06:30", 7))
    run(new)
    assert ("10:01", 1, 10, None, 8) in shown()
    readings.put(("a", "10:20:00", 3))
    readings.put(("a", "10:30:00", 3))
    run(old)
    assert shown()[-3:] == [("10:05", 0, 9, None, 9), ("10:06", 0, 7, None, None), ("10:20", 0, 3, 1, None)]
    assert len(readings.rows("view")) == 5
    assert "top" in readings.rows("view")[0]


@pytest.mark.extended
def test_a_pane_with_rows_stays_where_it_is_when_the_rules_of_its_zone_change(
    readings: Readings, tmp_path: Path
) -> None:
    """The clock of New York is 5 hours behind UTC in one start, and 3 hours in the next, by other files of zones."""

    def run() -> None:
        window = Calendar("day", zone="America/New_York", emit="on_update")
        stream = windowed(readings.stream(), name="readings", partition_by="sensor", event_time="at", key_groups=2)
        job = stream.window(window).aggregate(n=agg.count()).to_delta(readings.folder / "log")
        assert job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)

    readings.put(("a", "04:00:00", 1))
    with new_york_as("America/Bogota", tmp_path / "before"):
        run()
    readings.put(("a", "04:30:00", 2), ("b", "04:59:00", 4), ("b", "05:00:00", 8))
    with new_york_as("America/Sao_Paulo", tmp_path / "after"):
        run()
    found = [(row["sensor"], f"{row['pane_start']:%d %H}", f"{row['pane_end']:%d %H}") for row in readings.rows("log")]
    assert {*found} == {("a", "30 05", "01 05"), ("b", "30 05", "01 05"), ("b", "01 05", "02 03")}


def run_to_log(readings: Readings, stream: DataFrame, **aggregates: agg.Aggregate) -> list[dict[str, Any]]:
    """Process what is there, and return the log."""
    given = windowed(stream, name="readings", partition_by="sensor", event_time="at", key_groups=2)
    job = given.window(TimeInterval(60, discard_age=120)).aggregate(**aggregates).to_delta(readings.folder / "log")
    assert job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end(timeout=300)
    return [row for row in readings.rows("log") if row["sensor"] == "a"]


@pytest.mark.extended
def test_a_job_goes_on_with_a_source_column_that_got_wider(readings: Readings) -> None:
    """Results are of all rows, those of before included."""
    aggregates = {"total": agg.sum("value"), "latest": agg.arg_max("value", "at")}
    narrow = readings.stream().withColumn("value", F.col("value").cast("int"))
    readings.put(("a", "10:00:10", 2**31 - 1))
    run_to_log(readings, narrow, **aggregates)
    readings.put(("a", "10:00:20", 2**40), ("a", "10:00:30", 1))
    readings.put(("b", "10:05:00", 1))
    (row,) = run_to_log(readings, readings.stream(), **aggregates)
    assert (row["total"], f"{row['latest']:%S}") == (2**31 + 2**40, "20")


@pytest.mark.release  # the words of the advice are tested without Spark
def test_the_cast_that_a_refusal_prints_brings_a_wider_column_back(readings: Readings) -> None:
    """A maximum has the type of its column, also in the tables."""
    largest = agg.max("value")
    readings.put(("a", "10:00:10", 7))
    run_to_log(readings, readings.stream().withColumn("value", F.col("value").cast("int")), largest=largest)
    readings.put(("b", "10:05:00", 1))
    with pytest.raises(CheckpointError, match=r"output\.largest: 'int32' in the checkpoint, 'int64' now") as error:
        run_to_log(readings, readings.stream(), largest=largest)
    printed = re.search(r"\.withColumn\(.*?\)\)", str(error.value))
    assert printed
    stream = eval(f"stream{printed[0]}", {"stream": readings.stream(), "F": F})  # noqa: S307 -- as it is printed
    assert [row["largest"] for row in run_to_log(readings, stream, largest=largest)] == [7]


@pytest.mark.extended
def test_columns_that_a_table_cannot_get_leave_the_old_program_its_job(readings: Readings) -> None:
    """By their characters, or by a name that another column has but for upper and lower case: Delta refuses them."""
    total, n = agg.sum("value"), agg.count()

    def run(**aggregates: agg.Aggregate) -> None:
        job = declared(readings, 120, **aggregates).start(checkpoint=readings.checkpoint, trigger="available_now")
        assert job.await_end(timeout=300)

    readings.put(("a", "10:00:10", 1))
    run(total=total, n=n)
    for refused in ({"total": total, "n": n, "max (value)": agg.max("value")}, {"TOTAL": total, "n": n}):
        with pytest.raises(SinkError, match=r"cannot get the column.*start the program as it was"):
            run(**refused)
    readings.put(("a", "10:00:20", 4), ("a", "10:03:30", 2))
    readings.put(("a", "10:05:00", 9))
    run(total=total, n=n)
    assert [(row["total"], row["n"]) for row in readings.rows("view") if f"{row['pane_start']:%M}" == "00"] == [(5, 2)]
    assert {"TOTAL", "max (value)"}.isdisjoint(readings.rows("log")[0])


@pytest.mark.extended
def test_the_job_file_that_the_guide_prints_is_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As printed, but for the folder of its rows."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    guide = blocks_of(ROOT / "docs" / "savepoints.md")
    (program,) = [block.text for block in guide if "def job(spark)" in block.text]
    (tmp_path / "job.py").write_text(program.replace('"in"', repr(str(tmp_path))))
    assert load_job(str(tmp_path / "job.py"), spark=spark).pipeline.intake.name == "readings"
