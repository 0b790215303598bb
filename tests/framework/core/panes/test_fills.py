"""Panes without rows that are filled: by hand, and against a naive model (docs/semantics.md section 6.11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panekeeper import (
    Calendar,
    Cumulate,
    DeclarationError,
    Event,
    EventType,
    Every,
    Operator,
    Session,
    TimeInterval,
    agg,
)
from panekeeper.framework.core.steps import Step
from panekeeper.framework.declarations.operator import Emit
from panekeeper.state.store import MemoryStore
from panekeeper.testing import Restart, Watermark, run
from tests.framework.core.panes.firings import run as run_steps
from tests.framework.core.panes.firings import spec_of
from tests.framework.core.panes.test_calendar import CHANGES, us
from tests.framework.core.panes.test_firing_properties import batches_of, scripts
from tests.model.calendars import CALENDARS, NaiveCalendar

HOW: dict[str, Any] = {"schema": "k string, t timestamp, v long", "partition_by": "k", "event_time": "t"}
MANY = 160
"""No pane of a random script has a greater number."""


class Silent(Operator):
    """Emits nothing."""

    events = frozenset({EventType.TRIGGER})

    def handle_event(self, event: Event, emit: Emit) -> None:
        """Do nothing."""


def filled(window: Any, *script: Any, **aggregates: Any) -> list[tuple[Any, ...]]:
    """Key, start of the pane, values, refinement, whether it is the last one and reason of each firing."""
    batches = [
        [{"k": k, "t": time, "v": value} for k, time, value in item] if isinstance(item, list) else item
        for item in script
    ]
    aggregates = aggregates or {"n": agg.count(), "total": agg.sum("v")}
    found = run(window, aggregates=aggregates, script=batches, **HOW)
    names = ["k", "pane_start", *aggregates, "refinement", "is_final", "reason"]
    return [tuple(row[name] for name in names) for row in found.in_seconds]


@pytest.mark.parametrize(
    ("fill", "shown"), [("null", (None, None)), ("zero", (0, 0)), ("last", (2, 5))], ids=["null", "zero", "last"]
)
def test_a_pane_without_rows_fires_when_the_watermark_reaches_its_end(fill: Any, shown: tuple[Any, Any]) -> None:
    """Two panes of 10 s are filled after the last one with rows, and no third; each partition has its own."""
    window = TimeInterval(10, fill=fill, fill_for=20)
    script = (
        [("a", 1, 2), ("a", 3, 3), ("b", 15, 7)],
        Watermark(10),
        Restart(),
        Watermark(20),
        Restart(),
        Watermark(40),
        Watermark(100),
        [("a", 120, 1)],
        Watermark(130),
    )
    of_b = (1, 7) if fill == "last" else shown
    found = filled(window, *script)
    assert sorted(found, key=lambda one: one[1::-1]) == [
        ("a", 0, 2, 5, 0, True, "WATERMARK"),
        ("a", 10, *shown, 0, True, "FILLED"),
        ("b", 10, 1, 7, 0, True, "WATERMARK"),
        ("a", 20, *shown, 0, True, "FILLED"),
        ("b", 20, *of_b, 0, True, "FILLED"),
        ("b", 30, *of_b, 0, True, "FILLED"),
        ("a", 120, 1, 1, 0, True, "WATERMARK"),
    ]


def test_a_late_row_corrects_a_filled_pane() -> None:
    """As a refinement; a pane that was filled after it stays, and the next one shows the corrected results."""
    window = TimeInterval(10, discard_age=25, fill="last", fill_for=30)
    found = filled(window, [("a", 1, 2)], Watermark(30), [("a", 12, 9)], Watermark(40), Watermark(200))
    assert found == [
        ("a", 0, 1, 2, 0, False, "WATERMARK"),
        ("a", 10, 1, 2, 0, False, "FILLED"),
        ("a", 20, 1, 2, 0, False, "FILLED"),
        ("a", 10, 1, 9, 1, False, "LATE"),
        ("a", 30, 1, 9, 0, False, "FILLED"),
        ("a", 40, 1, 9, 0, True, "FILLED"),
    ]


def test_a_watermark_may_come_in_the_batch_of_the_one_before() -> None:
    """What fired with the one is filled with the next."""
    window = TimeInterval(10, fill="last", fill_for=10)
    steps = batches_of([("row", "a", 1, 5), ("watermark", 10), ("watermark", 99), ("end",)])
    assert log_of(window, steps) == {
        "a": [(0, 10, 1, 5, 0, True, "WATERMARK"), (10, 20, 1, 5, 0, True, "FILLED")],
    }


@pytest.mark.parametrize("cut", [(), (("end",),)], ids=["one batch", "two batches"])
@pytest.mark.parametrize(
    ("window", "filled_ends"),
    [
        (TimeInterval(10, discard_age=40, fill="zero", fill_for=25), [100, 110]),
        (Cumulate(10, 20, discard_age=40, fill="zero", fill_for=25), [110, 120]),
    ],
    ids=["interval", "cumulate"],
)
def test_a_late_row_does_not_end_the_filling_that_newer_rows_began(
    window: Any, filled_ends: list[int], cut: tuple[Any, ...]
) -> None:
    """However the watermarks after it are cut into batches: what is filled is measured from the newest pane with rows.

    ```
    rows     [80, 90)      [60, 70) late
    filled   [90, 100) [100, 110)
    ```
    """
    script: list[tuple[Any, ...]] = [("row", "a", 88, 1), ("watermark", 101), ("end",), ("row", "a", 67, 1)]
    found = log_of(window, batches_of([*script, ("watermark", 104), *cut, ("watermark", 207), ("end",)]))
    assert [end for _, end, *_, reason in found["a"] if reason == "FILLED" and end > 90] == filled_ends


@pytest.mark.parametrize("unit", ["day", "week", "month", "quarter", "year"])
@pytest.mark.parametrize(
    ("zone", "starts"), [("America/New_York", "03:00"), ("Asia/Kathmandu", None), ("Pacific/Apia", None)]
)
def test_a_calendar_that_is_filled_has_batches_before_its_first_watermark(
    unit: Any, zone: str, starts: str | None
) -> None:
    """Of rows, of nothing, and after a restart; then the panes after the row are filled."""
    window = Calendar(unit, zone=zone, starts=starts, fill="zero", fill_for="800 days")
    script = [[{"k": "a", "t": "2011-03-11T12:00+00:00", "v": 1}], [], Restart(), [], Watermark("2011-03-01")]
    found = run(window, aggregates={"n": agg.count()}, script=[*script, Watermark("2015-02-01")], **HOW)
    edges = [datetime(2011, 3, 11, 12, tzinfo=UTC), *(row["pane_end"] for row in found)]
    assert [row["n"] for row in found] == [1] + [0] * (len(found) - 1)
    assert [row["pane_start"] for row in found[1:]] == edges[1:-1]
    assert edges[-1] <= edges[1] + timedelta(days=800) < edges[-1] + timedelta(days=367)


def test_a_day_that_a_zone_left_out_is_not_filled() -> None:
    """In Apia 30 December 2011 has no length: the days around it touch."""
    window = Calendar("day", zone="Pacific/Apia", fill="zero", fill_for="2 days")
    script = [[{"k": "a", "t": "2011-12-29T12:00-10:00", "v": 1}], Watermark("2012-02-01")]
    found = run(window, aggregates={"n": agg.count()}, script=script, **HOW)
    assert [(row["pane_start"].day, row["pane_end"].day, row["n"]) for row in found] == [
        (29, 30, 1),
        (30, 31, 0),
        (31, 1, 0),
    ]


def test_a_flush_before_the_first_watermark_fires_what_has_rows() -> None:
    """And leaves nothing stored, also of a calendar."""
    store = MemoryStore()
    script = [("row", "a", 1, 2), ("end",), ("flush",), ("end",)]
    window = Calendar("day", zone="Asia/Kathmandu", fill="last", fill_for="2 days")
    assert [one[2:] for one in log_of(window, batches_of(script), store)["a"]] == [(1, 2, 0, True, "FLUSH")]
    assert {kind for kind, *_ in store.entries} <= {"header"}


def test_a_flush_fills_nothing_and_leaves_nothing_stored() -> None:
    """It fires what has rows, and nothing is stored for fillings that will not come."""
    window, store = TimeInterval(10, fill="zero", fill_for=20), MemoryStore()
    script = [("row", "a", 1, 2), ("watermark", 10), ("end",), ("row", "a", 25, 3), ("end",), ("flush",), ("end",)]
    assert log_of(window, batches_of(script), store) == {
        "a": [(0, 10, 1, 2, 0, True, "WATERMARK"), (20, 30, 1, 3, 0, True, "FLUSH")],
    }
    script = [("row", "a", 1, 2), ("watermark", 10), ("end",), ("flush",), ("end",)]
    store = MemoryStore()
    log_of(window, batches_of(script), store)
    assert {kind for kind, *_ in store.entries} <= {"header"}


def test_one_firing_a_pane_when_it_closes() -> None:
    """A late row that comes before that leaves nothing to fill."""
    window = TimeInterval(10, discard_age=15, emit="on_close", fill="zero", fill_for=20)
    found = filled(window, [("a", 1, 2)], Watermark(30), [("a", 18, 9)], Watermark(100))
    assert found == [
        ("a", 0, 1, 2, 0, True, "WATERMARK"),
        ("a", 10, 1, 9, 0, True, "WATERMARK"),
        ("a", 20, 0, 0, 0, True, "FILLED"),
        ("a", 30, 0, 0, 0, True, "FILLED"),
    ]


# a row at 5 and, once the watermark is at 35, one at 12: it reaches from [20, 30) to [30, 40) and is late for neither
@pytest.mark.parametrize(
    ("emit", "shown"),
    [
        ("on_complete", [(0, 1, 0), (10, 0, 0), (10, 1, 1)]),
        ("on_close", [(0, 1, 0), (10, 1, 0), (20, 0, 0)]),
    ],
)
def test_a_late_row_has_a_pane_filled_whose_end_has_passed_only_where_panes_fire_at_their_closing(
    emit: Any, shown: list[Any]
) -> None:
    """What is filled is decided when it fires: by the rows that have come until the end, or until the closing."""
    window = TimeInterval(10, discard_age=30, emit=emit, fill="zero", fill_for=10)
    found = filled(window, [("a", 5, 1)], Watermark(35), [("a", 12, 1)], Watermark(36), Watermark(200), n=agg.count())
    assert [(start, n, refinement) for _, start, n, refinement, *_ in found] == shown


def test_panes_of_a_calendar_and_results_from_rows_are_filled() -> None:
    """With whatever an aggregate returns: by "zero" a list and a text are null."""
    day = 86_400
    window = Calendar("day", zone="UTC", fill="zero", fill_for="1 day")
    found = filled(
        window, [("a", 5, 2)], Watermark(3 * day), every=agg.collect("v"), key=agg.max("k"), mean=agg.mean("v")
    )
    assert found == [
        ("a", 0, [2], "a", 2.0, 0, True, "WATERMARK"),
        ("a", day, None, None, 0.0, 0, True, "FILLED"),
    ]


def test_zeros_of_decimals() -> None:
    """They have the type of the aggregate."""
    found = run(
        TimeInterval(10, fill="zero", fill_for=10),
        aggregates={"sum": agg.sum("v")},
        script=[[{"k": "a", "t": 1, "v": Decimal("1.50")}], Watermark(50)],
        **HOW | {"schema": "k string, t timestamp, v decimal(6, 2)"},
    )
    assert [row["sum"] for row in found.in_seconds] == [Decimal("1.50"), Decimal("0.00")]


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: TimeInterval(10, fill="null"), "fill is 'null' without fill_for, so a partition would be filled for"),
        (lambda: TimeInterval(10, fill="mean", fill_for=20), "fill is 'mean'; it must be"),  # type: ignore[arg-type]
        (lambda: TimeInterval(10, fill=0, fill_for=20), "fill is 0; it must be"),  # type: ignore[arg-type]
        (lambda: TimeInterval(10, fill_for=20), "fill_for is 20, but there is no fill"),
        (lambda: TimeInterval(10, fill="last", fill_for=0), "fill_for .*0"),
        (lambda: TimeInterval(10, fill="last", fill_for=9), "fill_for is 9, less than one pane after another"),
        (lambda: TimeInterval(10, creation_period=5, fill="last", fill_for=20), "by creation_period=5 panes overlap"),
        (lambda: TimeInterval(10, fill="last", fill_for=20, early=Every(rows=2)), "leave out early"),
        (
            lambda: TimeInterval(10, fill="last", fill_for=20, refire=Every(rows=2), discard_age=5),
            "fill is 'last', for panes that fire once they are complete, with all their rows; leave out refire",
        ),
        (lambda: TimeInterval(10, fill="last", fill_for=20, emit="on_update"), "leave out emit"),
        (lambda: TimeInterval(10, fill="last", fill_for=20, results="discarding"), "leave out results"),
        (lambda: TimeInterval(10, fill="last", fill_for=20, fires_when="n >= 2"), "leave out fires_when"),
        (lambda: Session(10, fill="last"), "fill is 'last'; a session has"),  # type: ignore[call-arg]
    ],
)
def test_what_cannot_be_is_refused(declare: Callable[[], Any], words: str) -> None:
    """Where it is declared."""
    with pytest.raises(DeclarationError, match=words):
        declare()


@pytest.mark.parametrize(
    ("computed", "words"),
    [
        ({"operator": Silent(), "output": "n long"}, "fill is 'zero', which is for aggregates; an operator gets rows"),
        ({"aggregates": {"n": agg.count()}, "group_within": "v"}, "fill is 'zero', of one result a pane; leave out"),
    ],
)
def test_it_is_for_aggregates_without_groups(computed: dict[str, Any], words: str) -> None:
    """Refused where these are declared."""
    with pytest.raises(DeclarationError, match=words):
        run(TimeInterval(10, fill="zero", fill_for=20), script=[], **computed, **HOW)


def test_it_is_part_of_the_declaration() -> None:
    """So a checkpoint of one is not taken for another."""
    with_fill = TimeInterval(10, fill="last", fill_for=20).declaration()
    assert with_fill == TimeInterval(10).declaration() | {"fill": "last", "fill_for_us": 20_000_000}


# -- against a naive model ---------------------------------------------------------------------------------------


@st.composite
def windows(draw: st.DrawFn) -> TimeInterval:
    """Panes that touch, with gaps between them, or that cumulate."""
    step, fill_for = draw(st.integers(1, 8)), draw(st.integers(0, 20))
    common: dict[str, Any] = {
        "discard_age": draw(st.sampled_from((0, 0, 3, 9, 20))),
        "emit": draw(st.sampled_from(("on_complete", "on_complete", "on_close"))),
        "fill": draw(st.sampled_from(("null", "last", "zero"))),
    }
    if draw(st.booleans()):
        return Cumulate(step, step * draw(st.integers(1, 4)), fill_for=step + fill_for, **common)
    period = step + draw(st.integers(0, 3))
    return TimeInterval(step, creation_period=period, fill_for=period + fill_for, **common)


class NaiveFills:
    """Every pane of every partition looked at with every watermark, from all the rows that ever came."""

    def __init__(self, window: TimeInterval) -> None:
        self.window = window
        self.rows: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.fired: dict[tuple[str, int], int] = defaultdict(int)
        self.dirty: set[tuple[str, int]] = set()
        self.log: list[tuple[Any, ...]] = []
        self.watermark: float = float("-inf")
        self.flushed = False

    numbers = range(-MANY, MANY)

    def bounds(self, pane: int) -> tuple[int, int]:
        """Start and end of a pane, in seconds."""
        period, duration = self.window.period_us // 10**6, self.window.duration_us // 10**6
        if isinstance(self.window, Cumulate):
            return pane * period // duration * duration, (pane + 1) * period
        return pane * period, pane * period + duration

    def closes(self, pane: int) -> int:
        """The watermark that closes a pane."""
        return self.bounds(pane)[1] + self.window.age_us // 10**6

    def on_row(self, key: str, time: int, value: int) -> None:
        """A row joins each open pane that it is in."""
        for pane in self.numbers:
            start, end = self.bounds(pane)
            if start <= time < end and self.closes(pane) > self.watermark and not self.flushed:
                self.rows[key, pane].append(value)
                self.dirty.add((key, pane))

    def fire(self, key: str, pane: int, values: tuple[Any, Any], reason: str, *, is_final: bool) -> None:
        """Log a firing."""
        start, end = self.bounds(pane)
        self.log.append((key, start, end, *values, self.fired[key, pane], is_final, reason))
        self.fired[key, pane] += 1
        self.dirty.discard((key, pane))

    def of(self, key: str, pane: int) -> tuple[Any, Any]:
        """Count and sum of a pane."""
        return len(self.rows[key, pane]), sum(self.rows[key, pane])

    def on_watermark(self, watermark: int) -> None:
        """What has new rows fires, and what has none where it is filled."""
        if watermark <= self.watermark or self.flushed:
            return
        previous, self.watermark = self.watermark, watermark
        for pane in self.numbers:
            end = self.bounds(pane)[1]
            ready = self.closes(pane) if self.window.emit == "on_close" else end
            final = self.closes(pane) <= watermark
            for key in "abc":
                if ready > watermark:
                    continue
                if (key, pane) in self.dirty:
                    reason = "WATERMARK" if previous < ready else "LATE"
                    self.fire(key, pane, self.of(key, pane), reason, is_final=final)
                elif previous < ready and not self.rows.get((key, pane)):
                    before = [one for (k, one), rows in self.rows.items() if k == key and one < pane and rows]
                    if before and end <= self.bounds(max(before))[1] + self.window.fill_for_us // 10**6:
                        values = {"null": (None, None), "zero": (0, 0), "last": self.of(key, max(before))}
                        self.fire(key, pane, values[str(self.window.fill)], "FILLED", is_final=final)

    def on_flush(self) -> None:
        """What has new rows fires a last time."""
        for key, pane in sorted(self.dirty):
            self.fire(key, pane, self.of(key, pane), "FLUSH", is_final=True)
        self.flushed = True

    def play(self, script: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """The log of a script."""
        for kind, *values in script:
            if kind == "row":
                self.on_row(*values)
            elif kind == "watermark":
                self.on_watermark(*values)
            elif kind == "flush":
                self.on_flush()
        return self.log


class NaiveCalendarFills(NaiveFills):
    """The panes of a calendar around an instant."""

    numbers = range(-4, 24)

    def __init__(self, window: Calendar, calendar: tuple[str, str | None], around: int) -> None:
        super().__init__(window)
        self.panes = NaiveCalendar(
            {"intervalDuration": 1, "event_time": "ts", "partitioned": True}, window.zone, calendar
        )
        self.around = around

    @cached_property
    def edges(self) -> list[int]:
        """The instants between panes, in seconds: the start of the pane `numbers[0]` first."""
        starts = [self.panes.panes_for(self.around * 1_000_000)[0][0]]
        for _ in self.numbers[: -self.numbers[0]]:
            starts.insert(0, self.panes.panes_for(starts[0] - 1)[0][0])
        while len(starts) <= len(self.numbers):
            starts.append(self.panes.panes_for(starts[-1])[0][1])
        return [one // 1_000_000 for one in starts]

    def bounds(self, pane: int) -> tuple[int, int]:
        """Start and end of a pane, in seconds."""
        start, end = self.edges[pane - self.numbers[0] :][:2]
        return start, end


def in_order(log: list[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    """The firings of each partition, in their order."""
    found = defaultdict(list)
    for row in log:
        found[row[0]].append(row[1:])
    return dict(found)


def log_of(window: TimeInterval, batches: list[list[Step]], store: MemoryStore | None = None) -> Any:
    """The log of the core, as that of the model."""
    table: pa.Table = run_steps(spec_of(window), batches, store)
    bounds = [[at.timestamp() for at in table.column(f"pane_{one}").to_pylist()] for one in ("start", "end")]
    names = ("n", "sum", "refinement", "is_final", "reason")
    return in_order(
        [*zip(table.column("k").to_pylist(), *bounds, *(table.column(n).to_pylist() for n in names), strict=True)]
    )


@given(window=windows(), script=scripts())
def test_panes_are_filled_as_in_the_model(window: TimeInterval, script: list[tuple[Any, ...]]) -> None:
    """Every firing of every partition, and nothing is stored once all is closed and filled."""
    store = MemoryStore()
    assert log_of(window, batches_of(script), store) == in_order(NaiveFills(window).play(script))
    if script[-2:-1] in ([("flush",)], [("watermark", 100)]):
        assert {kind for kind, *_ in store.entries} <= {"header"}


@given(
    change=st.sampled_from(CHANGES),
    calendar=st.sampled_from(sorted(CALENDARS, key=str)),
    script=scripts(),
    data=st.data(),
)
def test_panes_of_a_calendar_are_filled_as_in_the_model(
    change: tuple[str, str], calendar: tuple[str, str | None], script: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """Around changes of the clock; a second of the script is about a sixth of a pane."""
    zone, around, (unit, starts) = change[0], us(change[1]) // 1_000_000, calendar
    days = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}[unit]
    step = days * 86_400 // 6
    window = Calendar(
        unit,
        zone=zone,
        starts=starts,
        discard_age=step * data.draw(st.sampled_from((0, 0, 3, 9))),
        emit=data.draw(st.sampled_from(("on_complete", "on_complete", "on_close"))),
        fill=data.draw(st.sampled_from(("null", "last", "zero"))),
        fill_for=f"{days * data.draw(st.integers(1, 3)) + 1} days",
    )
    moved = [
        (*item[:-2], around + item[-2] * step, item[-1])
        if item[0] == "row"
        else ("watermark", around + item[1] * step)
        if item[0] == "watermark"
        else item
        for item in script
    ]
    store = MemoryStore()
    model = NaiveCalendarFills(window, calendar, around)
    assert log_of(window, batches_of(moved), store) == in_order(model.play(moved))
    if script[-2:-1] in ([("flush",)], [("watermark", 100)]):
        assert {kind for kind, *_ in store.entries} <= {"header"}


@given(window=windows(), script=scripts(), data=st.data())
def test_where_batches_end_and_which_partitions_are_together_changes_nothing(
    window: TimeInterval, script: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    """Each partition has the same firings alone in a key group, and for other micro-batches."""
    uncut = [item for item in script if item != ("end",)]
    ends = data.draw(st.lists(st.booleans(), min_size=len(uncut), max_size=len(uncut)))
    cut = [
        one for item, ends_here in zip(uncut, ends, strict=True) for one in ([item, ("end",)] if ends_here else [item])
    ]
    alone: dict[Any, Any] = {}
    for key in "abc":
        own = [item for item in cut if item[0] != "row" or item[1] == key]
        alone |= log_of(window, batches_of([*own, ("end",)]))
    assert log_of(window, batches_of([*uncut, ("end",)])) == alone


@pytest.mark.parametrize(("fill_for", "filled_days"), [("1 day", []), ("25 hours", ["2024-11-03"])])
def test_a_day_of_25_hours_is_filled_if_it_ends_within_fill_for(fill_for: str, filled_days: list[str]) -> None:
    """It is a length of time, not a number of panes; in New York, where 3 November 2024 has 25 hours."""
    window = Calendar("day", zone="America/New_York", fill="null", fill_for=fill_for)
    found = run(
        window,
        aggregates={"n": agg.count()},
        schema="t timestamp",
        event_time="t",
        script=[[{"t": "2024-11-02T12:00:00+00:00"}], Watermark("2024-11-10T00:00:00+00:00")],
    )
    assert [f"{row['pane_start']:%Y-%m-%d}" for row in found if row["reason"] == "FILLED"] == filled_days
