"""Aggregates in panes, through late rows, random batches and restarts, against plain Python over each pane's rows."""

from __future__ import annotations

from decimal import Decimal
from itertools import groupby
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from panekeeper import TimeInterval, agg
from panekeeper.testing import Restart, Watermark, run

JOB: dict[str, Any] = {
    "schema": "k string, t timestamp, who string, v long, price decimal(9, 2)",
    "partition_by": "k",
    "event_time": "t",
}
ROWS = st.fixed_dictionaries(
    {
        "k": st.sampled_from("ab"),
        "t": st.integers(0, 29),
        "who": st.sampled_from(["x", "y", "z", None]),
        "v": st.none() | st.integers(-3, 3),
        "price": st.none() | st.decimals(-9, 9, places=2),
    }
)
AGGREGATES = {
    "paid": agg.sum("price", where="v > 0"),
    "n": agg.count_if("who = 'x'"),
    "kinds": agg.count_distinct("who"),
    "most": agg.top_k("who", k=2),
    "middle": agg.quantiles("v", [0.5], exact=True),
    "bins": agg.histogram("v", [-1, 2]),
    "best": agg.top_rows(k=2, by="v desc", columns=["who", "v"]),
    "ratio": agg.expr("n / kinds"),
    "ever": agg.bit_or("v"),
}
Rows = list[dict[str, Any]]


def plain(rows: Rows) -> dict[str, Any]:
    """All aggregates of rows in their order of arrival."""
    prices = [row["price"] for row in rows if row["price"] is not None and (row["v"] or 0) > 0]
    names = sorted(row["who"] for row in rows if row["who"] is not None)
    values = sorted(row["v"] for row in rows if row["v"] is not None)
    x, kinds = names.count("x"), len({*names})
    ever = 0
    for value in values:
        ever |= value
    frequent = sorted({*names}, key=lambda who: (-names.count(who), who))
    best = sorted([row for row in rows if row["v"] is not None], key=lambda row: -row["v"])[:2]
    return {
        "paid": sum(prices, Decimal("0.00")) if prices else None,
        "n": x,
        "kinds": kinds,
        "most": [{"who": who, "count": names.count(who)} for who in frequent[:2]],
        "middle": [values[(len(values) - 1) // 2]] if values else None,
        "bins": [sum(v < -1 for v in values), sum(-1 <= v < 2 for v in values), sum(v >= 2 for v in values)],
        "best": [{"who": row["who"], "v": row["v"]} for row in best],
        "ratio": x / kinds if kinds else None,
        "ever": ever if values else None,
    }


def groups(rows: Rows) -> Rows:
    """The two groups with the greatest sums, each with its rank; of equal ones the smaller, null before all."""
    in_order = sorted(rows, key=lambda row: (row["who"] is not None, row["who"] or ""))
    found = []
    for who, own in groupby(in_order, key=lambda row: row["who"]):
        values = [row["v"] for row in own if row["v"] is not None]
        found.append({"who": who, "total": sum(values) if values else None})
    found.sort(key=lambda one: (one["total"] is None, -(one["total"] or 0)))
    return [one | {"rank": rank} for rank, one in enumerate(found[:2], 1)]


def firings(early: Rows, late: Rows) -> list[tuple[str, int, int, Rows]]:
    """The (partition, pane, refinement, rows) that fire: all panes, then those with late rows again."""
    found = []
    for key, pane in sorted({(row["k"], row["t"] // 10) for row in [*early, *late]}):
        of_pane = [[r for r in rows if (r["k"], r["t"] // 10) == (key, pane)] for rows in (early, late)]
        refinements = [of_pane[0]] if of_pane[0] else []
        refinements += [[*of_pane[0], *of_pane[1]]] if of_pane[1] else []
        found += [(key, pane, number, rows) for number, rows in enumerate(refinements)]
    return found


def script(draw: Any, early: Rows, late: Rows) -> list[Any]:
    """The rows in random batches with restarts between, and a watermark after each of both parts."""
    steps: list[Any] = []
    for rows, watermark in ((early, 30), (late, 40)):
        for row in rows:
            if not steps or not isinstance(steps[-1], list) or draw(st.booleans()):
                steps += [Restart(), []] if draw(st.booleans()) else [[]]
            steps[-1].append(row)
        steps += [Watermark(watermark)]
    return steps


@given(early=st.lists(ROWS, max_size=12), late=st.lists(ROWS, max_size=4), data=st.data())
def test_firings_show_the_aggregates_of_their_rows(early: Rows, late: Rows, data: st.DataObject) -> None:
    """Through late rows, wherever batches are cut and jobs are started again."""
    found = run(TimeInterval(10, discard_age=60), **JOB, aggregates=AGGREGATES, script=script(data.draw, early, late))
    got = {(row["k"], row["pane_start"].second // 10, row["refinement"]): row for row in found}
    right = {(key, pane, number): plain(rows) for key, pane, number, rows in firings(early, late)}
    assert {place: {name: row[name] for name in AGGREGATES} for place, row in got.items()} == right


@given(early=st.lists(ROWS, max_size=12), late=st.lists(ROWS, max_size=4), data=st.data())
def test_firings_show_the_first_groups_of_their_rows(early: Rows, late: Rows, data: st.DataObject) -> None:
    """As they are then, each firing with all of them."""
    found = run(
        TimeInterval(10, discard_age=60),
        **JOB,
        aggregates={"total": agg.sum("v")},
        group_within="who",
        top=2,
        by="total desc",
        script=script(data.draw, early, late),
    )
    names = ("who", "total", "rank")
    got = [
        (row["k"], row["pane_start"].second // 10, row["refinement"], {name: row[name] for name in names})
        for row in found
    ]
    right = [(key, pane, number, group) for key, pane, number, rows in firings(early, late) for group in groups(rows)]
    assert sorted(map(str, got)) == sorted(map(str, right))
