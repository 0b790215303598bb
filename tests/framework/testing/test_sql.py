"""Conditions of Spark SQL in memory: what they say of rows, and what is none."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from panekeeper import Count, DeclarationError, InputError, SetupError, Sliding, TimeInterval, Tumbling, agg
from panekeeper.framework.testing.sql import holds
from panekeeper.testing import Restart, run

ROWS = pa.table(
    {
        "status": [200, 500, None],
        "Name": ["a", "b", None],
        "at": pa.array([1, 2, 3], pa.timestamp("us", tz="UTC")),
        "price": pa.array([Decimal("1.10"), Decimal("2.20"), None]),
        "point": [{"x": 1}, {"x": 2}, None],
        "tags": [["a"], [], None],
    }
)


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        ("status >= 500", [False, True, False]),
        ("STATUS = 200 OR `status` IS NULL", [True, False, True]),
        ("not (status = 200)", [False, True, False]),
        ('name = "b"', [False, True, False]),
        ("name rlike '^[ab]'", [True, True, False]),
        ("status <=> null", [False, False, True]),
        ("price > 1.5", [False, True, False]),
        ("at > timestamp'1970-01-01 00:00:00.000001'", [False, True, True]),
        ("point.x = 2", [False, True, False]),
        ("array_contains(tags, 'a')", [True, False, False]),
        ("case when status = 200 then true else false end", [True, False, False]),
        ("status div 200 = 2 and hour(at) = 0", [False, True, False]),
        ("cast(status as string) in ('200', '300')", [True, False, False]),
        ("true", [True, True, True]),
    ],
)
def test_a_condition_says_what_it_says_in_spark(condition: str, held: list[bool]) -> None:
    """By names in any case, with Spark's words; null is false."""
    found = holds(condition, ROWS)
    assert found.to_pylist() == held
    assert (found.type, found.null_count) == (pa.bool_(), 0)
    assert len(holds(condition, ROWS.schema.empty_table())) == 0


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("statu >= 500", r"there is no column 'statu'; did you mean 'status'\? \(columns: status, Name, at, .*\)$"),
        ("status + 1", r"^n: 'status \+ 1' is a bigint, not a condition$"),
        ("status >", "is not a condition of SQL"),
        ("true; drop table x", "is not a condition of SQL"),
        ("sum(status) > 3", r"is not a condition on one row: it has 'SUM\(status\)'"),
        ("row_number() over () > 1", "is not a condition on one row"),
        ("status in (select 1)", "is not a condition on one row"),
        ("no_such(status) = 1", "is not a condition for DuckDB: .*no_such"),
    ],
)
def test_what_is_no_condition_is_refused(condition: str, message: str) -> None:
    """With the columns that there are, before any row is looked at."""
    with pytest.raises(DeclarationError, match=message):
        holds(condition, ROWS.schema.empty_table(), "n")


def test_a_row_for_which_it_cannot_be_computed_is_an_error_of_the_input() -> None:
    """The condition is fine."""
    assert len(holds("sqrt(status - 200) > 1", ROWS)) == 3
    with pytest.raises(InputError, match="cannot be computed for some row"):
        holds("sqrt(status - 300) > 1", ROWS)


@pytest.mark.parametrize("library", ["duckdb", "sqlglot"])
def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """With the extra that has it."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SetupError, match=r"pip install 'panekeeper\[testing\]'"):
        holds("status > 1", ROWS)


SCHEMA = "k string, at timestamp, v long"


def batches() -> list[list[dict[str, Any]]]:
    """Rows of one key, one a second, in two batches and an empty one."""
    rows = [{"k": "a", "at": datetime.fromtimestamp(at, UTC), "v": v} for at, v in enumerate([5, None, -2, 7, -1], 1)]
    return [rows[:3], rows[3:], [{"k": "b", "at": datetime.fromtimestamp(100, UTC), "v": 0}], []]


@pytest.mark.parametrize(
    ("window", "found"),
    [(TimeInterval(50), [(12, 2, [5, 7], 1)]), (Tumbling(Count(5)), [(12, 2, [5, 7], 1)])],
    ids=["pane", "tumble"],
)
@pytest.mark.parametrize("keeps_rows", [False, True])
def test_an_aggregate_is_of_the_rows_for_which_its_condition_holds(
    window: Any, found: list[Any], *, keeps_rows: bool
) -> None:
    """Beside others, with restarts between, from partial results and from rows; null is false."""
    aggregates: dict[str, Any] = {
        "plus": agg.sum("v", where="v > 0"),
        "minus": agg.count_if("v < 0"),
        "n": agg.count(where="v is null"),
        **({"list": agg.collect("v", where="v > 0")} if keeps_rows else {}),
    }
    how: dict[str, Any] = {"event_time": "at"} if isinstance(window, TimeInterval) else {}
    script = [item for batch in batches() for item in (batch, Restart())]
    results = run(window, aggregates=aggregates, script=script, partition_by="k", schema=SCHEMA, **how)
    got = [(row["plus"], row["minus"], row.get("list", [5, 7]), row["n"]) for row in results if row["k"] == "a"]
    assert got == found


def test_a_sliding_window_shows_the_rows_of_a_condition() -> None:
    """Each firing from the rows that are in it."""
    aggregates = {"total": agg.sum("v", where="v > 0"), "list": agg.collect("v", where="v > 0")}
    results = run(Sliding(evict=Count(2)), aggregates=aggregates, script=batches()[:2], schema=SCHEMA)
    assert [(row["total"], row["list"]) for row in results] == [
        (5, [5]),
        (5, [5]),
        (None, []),
        (7, [7]),
        (7, [7]),
    ]
