"""Panes without rows that are filled: by hand, and against a naive model (docs/semantics.md section 6.11)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
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
from tests.framework.core.panes.test_firing_properties import batches_of, scripts

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
        (lambda: Session(10, fill="last"), "fill is 'last'; a session has"),  # type: ignore[arg-type]
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
        for pane in range(-MANY, MANY):
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
        for pane in range(-MANY, MANY):
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
