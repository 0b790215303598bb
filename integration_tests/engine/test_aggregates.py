"""Aggregates beside Spark's own; of the rows for which a condition holds, in Delta tables."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from panekeeper import DeclarationError, TimeInterval, agg, windowed
from panekeeper.framework.core.aggregates.binding import bind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from integration_tests.engine.conftest import Readings
    from panekeeper import Job


COLUMNS = {
    "i": "int",
    "b": "bigint",
    "f": "float",
    "x": "double",
    "money": "decimal(7, 2)",
    "wide": "decimal(38, 6)",
    "fine": "decimal(38, 36)",
    "s": "string",
    "ok": "boolean",
}
FINE = "0.123456789012345678901234567890123456"
ROWS = [
    ("1", "5", "0.1", "0.1", "1.10", "12345678901234567890123456789.123456", FINE, "b", "true"),
    ("2", None, "0.2", "-2.5", "2.25", "-1", "0.1", "a", None),
    (None, "-7", "1e30", "1e100", "99999.99", "0.000001", "-1.5", None, "false"),
    ("4", "9", "-0.3", "7.25", None, "5", "1", "c", "true"),
    ("4", "9", "2.5", "3.0", "-3.33", "5", "1", "a", "true"),
]
NUMBERS = ("i", "b", "f", "x", "money", "wide", "fine")
SAME = {"sum": "sum", "mean": "avg", "min": "min", "max": "max", "stddev": "stddev"}


def _percentiles(column: str) -> str:
    return f"percentile_approx({column}, array(0.2, 0.5, 1.0), 1000)"


NONE, NAN = "nullif(count(*), count(*))", "sqrt(-count(*))"
VALUES = (f"least({NONE}, 3)", f"greatest({NONE}, 3)", f"least({NAN}, 3)", "(-7 * count(*)) % 4", "count(*) % -4")
CONDITIONS = (f"{NAN} > 3", f"3 < {NAN}", f"{NAN} == {NAN}", f"not {NAN} >= {NAN}", f"greatest({NAN}, 3) > 4")
SPARKS: dict[str, tuple[agg.Aggregate, str]] = {
    **{f"{a}({c})": (getattr(agg, a)(c), f"{b}({c})") for a, b in SAME.items() for c in NUMBERS},
    "count": (agg.count(), "count(*)"),
    "some": (agg.count("b"), "count(b)"),
    "arg_max": (agg.arg_max("money", "s"), "max_by(s, money)"),
    "distinct": (agg.approx_distinct("s"), "approx_count_distinct(s)"),
    **{f"var({c})": (agg.variance(c), f"var_samp({c})") for c in NUMBERS if c != "f"},
    **{f"skew({c})": (agg.skewness(c), f"skewness({c})") for c in ("i", "money")},
    "covariance": (agg.covariance("x", "i"), "covar_samp(x, i)"),
    "corr": (agg.corr("money", "b"), "corr(money, b)"),
    "any": (agg.any("ok"), "bool_or(ok)"),
    "all": (agg.all("ok"), "bool_and(ok)"),
    "bits": (agg.bit_or("i"), "bit_or(i)"),
    "last": (agg.last_row(by="money", columns=["s", "i"]), "max_by(struct(s, i), money)"),
    **{f"quantiles({c})": (agg.quantiles(c, [0.2, 0.5, 1], exact=True), _percentiles(c)) for c in ("i", "x", "money")},
    "exactly distinct": (agg.count_distinct("money"), "count(DISTINCT money)"),
    **{text: (agg.expr(text), f"cast({text} AS double)") for text in VALUES},
    **{text: (agg.expr(text), text) for text in CONDITIONS},
    "list": (agg.collect("s"), "collect_list(s)"),
}
"""What is computed -> our aggregate, and Spark's own."""


def test_results_have_the_types_and_values_of_sparks_own_functions(spark: SparkSession) -> None:
    """Of each kind of number; doubles up to the order in which they are added."""
    texts = spark.createDataFrame(ROWS, ", ".join(f"{name} string" for name in COLUMNS))
    rows = texts.coalesce(1).selectExpr(*[f"cast({name} as {kind}) AS {name}" for name, kind in COLUMNS.items()])
    theirs = rows.selectExpr(*[f"{sql} AS `{name}`" for name, (_, sql) in SPARKS.items()]).toArrow()
    table = rows.toArrow().combine_chunks()
    for name, (declared, _) in SPARKS.items():
        ours = bind(declared, table.schema).from_content(table, np.array([0, table.num_rows]))
        their = theirs.column(name)
        assert (name, str(ours.type).replace("item", "element")) == (name, str(their.type).replace(" not null", ""))
        (got,), (right,) = ours.to_pylist(), their.to_pylist()
        assert (name, got) == (name, pytest.approx(right, rel=1e-12) if isinstance(right, float) else right)


def run(readings: Readings) -> Job:
    """A job with conditions, over what is there; one raises for a row that is refused."""
    job = (
        windowed(
            readings.stream().withColumn("price", F.expr("cast(value / 3 as decimal(12, 5))")),
            name="conditions",
            partition_by="sensor",
            event_time="at",
            reject={"ZERO": "value = 0"},
            key_groups=2,
        )
        .window(TimeInterval(60, discard_age=60))
        .aggregate(
            plus=agg.sum("value", where="value > 1.5"),
            n=agg.count_if("value > 1.5"),
            minus=agg.collect("value", where="100 / value < 0"),
            price=agg.sum("price"),
            share=agg.expr("count(where='value > 1.5') / count()"),
            top=agg.top_k("value", k=1),
        )
        .to_delta(readings.folder / "log", view=readings.folder / "view")
        .start(checkpoint=readings.checkpoint, trigger="available_now")
    )
    job.await_end()
    return job


def test_an_aggregate_is_of_the_rows_for_which_its_condition_holds(readings: Readings) -> None:
    """Through a restart, in log and view; a refused row is not tried, a quarantined one has its stream's columns."""
    readings.put(("a", "10:00:10", 1), ("a", "10:00:20", 2), ("a", "10:00:30", -3), ("b", "10:00:10", -1))
    readings.put(("a", "10:00:40", 0), ("c", "10:01:10", 7))
    run(readings)
    readings.put(("a", "10:00:50", 4), ("c", "10:05:00", 1))
    readings.put(("a", "10:00:55", 9))
    run(readings)

    first = next(r for r in readings.rows("log") if r["sensor"] == "a" and r["refinement"])
    assert (first["share"], first["top"]) == (0.5, [{"value": -3, "count": 1}])
    names = ("sensor", "plus", "n", "minus", "price", "refinement")
    assert sorted(tuple(r[name] for name in names) for r in readings.rows("log")) == [
        ("a", 2, 1, [-3], Decimal("0.00000"), 0),
        ("a", 6, 2, [-3], Decimal("1.33333"), 1),
        ("b", None, 0, [-1], Decimal("-0.33333"), 0),
        ("c", 7, 1, [], Decimal("2.33333"), 0),
    ]
    assert {r["sensor"]: r["plus"] for r in readings.rows("view")} == {"a": 6, "b": None, "c": 7}
    refused = {r["reason"]: json.loads(r["row"]) for r in readings.rows("log_quarantine")}
    assert {reason: row["value"] for reason, row in refused.items()} == {"ZERO": 0, "LATE": 9}
    assert {*refused["LATE"]} == {*refused["ZERO"]} == {"sensor", "at", "value", "price"}


NO_CONDITIONS = {
    "valu > 3": r"is not a condition on these columns: .*valu.* \(columns: sensor, at, value\)$",
    "value + 3": "is a bigint, not a condition",
    "value >": r"is not a condition on these columns: \[PARSE_SYNTAX_ERROR\] .* end of input.* \(columns: ",
    "value >> 1 1": r"is not a condition on these columns: \[PARSE_SYNTAX_ERROR\] .*'1'.* \(columns: ",
    "sum(value) > 3": "is not a condition on these columns: ",
    "row_number() over (order by value) > 1": "is not a condition on these columns: ",
}


def test_what_is_no_condition_on_a_row_is_refused(readings: Readings, capfd: pytest.CaptureFixture[str]) -> None:
    """Where it is declared, with the aggregate and the columns that there are; Spark prints no copy of the error."""
    stream = windowed(readings.stream(), name="x", event_time="at", watermark=0).window(TimeInterval(60))
    for condition, message in NO_CONDITIONS.items():
        with pytest.raises(DeclarationError, match=r"^aggregate n=agg\.sum\('value', where=.*" + message):
            stream.aggregate(n=agg.sum("value", where=condition))
    assert "QueryContextLogger" not in capfd.readouterr().err


def test_the_view_has_the_newest_group_of_each_rank(readings: Readings) -> None:
    """Groups of a pane through a restart; a late row moves one to the front, and the view follows."""
    stream = windowed(readings.stream(), name="groups", event_time="at", key_groups=2)
    panes = stream.window(TimeInterval(60, discard_age=600))
    by_sensor = panes.aggregate(total=agg.sum("value"), group_within="sensor", top=2, by="total desc")
    readings.put(("a", "10:00:10", 1), ("b", "10:00:20", 2), ("c", "10:00:30", 3))
    readings.put(("a", "10:01:10", 7))
    readings.put(("a", "10:00:40", 9), ("d", "10:03:00", 1))
    for _ in range(2):
        job = by_sensor.to_delta(readings.folder / "log", view=readings.folder / "view")
        job.start(checkpoint=readings.checkpoint, trigger="available_now").await_end()
        readings.put(("b", "10:04:00", 1))

    def shown(table: str) -> list[tuple[Any, ...]]:
        names = ("rank", "sensor", "total", "refinement")
        first = [row for row in readings.rows(table) if f"{row['pane_start']:%H:%M}" == "10:00"]
        return sorted(tuple(row[name] for name in names) for row in first)

    assert shown("log") == [(1, "a", 10, 1), (1, "c", 3, 0), (2, "b", 2, 0), (2, "c", 3, 1)]
    assert shown("view") == [(1, "a", 10, 1), (2, "c", 3, 1)]
