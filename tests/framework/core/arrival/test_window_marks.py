"""The window marks of tumbles without a result row: in the log only if they are wanted."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pytest

from panekeeper import Count, Emit, Event, EventType, Operator, Punctuation, Tumbling, agg
from panekeeper.framework.core.job_spec import ARRIVAL_TIME, JobSpec
from panekeeper.framework.core.key_group import KeyGroupRunner
from panekeeper.framework.core.steps import Mark, Rows, Step
from panekeeper.state.store import MemoryStore
from panekeeper.testing import run as play

OUTPUT = pa.schema([("n", pa.int64())])
KEYS = pa.schema([("key", pa.string())])
COLUMNS = pa.schema([("key", pa.string()), ("v", pa.int64())])
ROWS = Rows(pa.table({"key": ["a", "b"], "v": [1, 2], ARRIVAL_TIME: [5, 5]}))


class EvenSums(Operator):
    """Emits the sum of a tumble, if it is even."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.EVICTION})

    def handle_event(self, event: Event, emit: Emit) -> None:
        total = int(event.column("v").sum())
        if total % 2 == 0:
            emit(total=total)


class Silent(Operator):
    """Handles insertions alone, and emits nothing."""

    events: ClassVar[frozenset[EventType]] = frozenset({EventType.INSERTION})

    def handle_event(self, event: Event, emit: Emit) -> None: ...


class Total(agg.UserAggregate):
    """A sum that needs the rows, as it has no merge."""

    state = int

    def zero(self) -> int:
        return 0

    def add(self, state: int, value: int) -> int:
        return state + value

    def result(self, state: int) -> int:
        return state


def run(*, passes_marks: bool, **computed: Any) -> list[tuple[Any, ...]]:
    """Two rows, and two window marks; (key, result, mark) of each result row."""
    window, output = Tumbling(Punctuation(), passes_marks=passes_marks), pa.schema([("total", pa.int64())])
    job = JobSpec(window=window, keys=KEYS, columns=COLUMNS, output=output, **computed)
    results = KeyGroupRunner(job, MemoryStore()).run([ROWS, Mark("window"), Mark("window")]).results
    return [] if results is None else [(r["key"], r["total"], r["window_mark"]) for r in results.to_pylist()]


@pytest.mark.parametrize("total", [agg.sum("v"), agg.user(Total(), "v", output="int64")], ids=["partial", "rows"])
def test_an_empty_tumble_has_its_mark_in_the_log_if_wanted(total: Any) -> None:
    """As a result over no rows, whether rows are kept or partial results."""
    first = [("a", 1, True), ("b", 2, True)]
    assert run(passes_marks=False, aggregates={"total": total}) == first
    *before, last, end = run(passes_marks=True, aggregates={"total": total})
    assert before == first
    assert [last[::2], end[::2]] == [("a", True), ("b", True)]
    assert {last[1] or 0, end[1] or 0} == {0}


def test_a_silent_operator_passes_the_mark_on_if_wanted() -> None:
    """As a row of nulls; also where it does not handle the tumble."""
    assert run(passes_marks=False, operator=EvenSums()) == [("b", 2, True), ("a", 0, True), ("b", 0, True)]
    silent = [("a", None, True), ("b", 2, True), ("a", 0, True), ("b", 0, True)]
    assert run(passes_marks=True, operator=EvenSums()) == silent
    assert run(passes_marks=False, operator=Silent()) == []
    assert run(passes_marks=True, operator=Silent()) == [(key, None, True) for key in "abab"]


def test_a_mark_arrives_at_the_time_of_its_batch() -> None:
    """Not at that of the last row of its key group; one without a time arrives with the rows before it."""
    job = JobSpec(
        window=Tumbling(Punctuation()), keys=KEYS, columns=COLUMNS, aggregates={"n": agg.count()}, output=OUTPUT
    )
    steps: list[Step] = [ROWS, Mark("window"), ROWS, Mark("window", 9), ROWS, Mark("window", 7)]
    results = KeyGroupRunner(job, MemoryStore()).run(steps).results
    assert results is not None
    assert results.column("fired_at").cast(pa.int64()).to_pylist() == [5, 5, 9, 9, 9, 9]


@pytest.mark.parametrize(("arrival_time", "tumbles"), [(None, [0, 1, 0]), ("at", [1, 0])], ids=["clock", "declared"])
def test_a_mark_before_any_row_tumbles_only_where_there_is_a_clock(
    arrival_time: str | None, tumbles: list[int]
) -> None:
    """By the wall clock the window is there from the first batch on; by declared times from its first row on."""
    found = play(
        Tumbling(Punctuation(), passes_marks=True),
        aggregates={"n": agg.count()},
        schema="v long, at timestamp",
        marks="v = 0",
        arrival_time=arrival_time,
        script=[[{"v": 0, "at": 1}], [{"v": 1, "at": 2}], [{"v": 0, "at": 3}], [{"v": 0}]],
    )
    assert [row["n"] for row in found] == tumbles


class Means(Operator):
    """Emits the largest value, and the mean, which is no whole number in every second window."""

    events = frozenset({EventType.EVICTION})

    def __init__(self, *, largest: bool) -> None:
        self._largest = largest

    def handle_event(self, event: Event, emit: Emit) -> None:
        values = event.column("v")
        if self._largest:
            emit(n=int(values.max()))
        emit(n=float(values.mean()))


@pytest.mark.parametrize(
    ("largest", "passes_marks", "expected"),
    [
        (True, False, [(3, False), (2, True), (3, True), (6, False), (5, True)]),
        (True, True, [(3, False), (2, True), (3, True), (6, False), (5, True)]),
        (False, False, [(2, True), (5, True)]),
        (False, True, [(2, True), (None, True), (5, True)]),
    ],
)
def test_a_row_that_does_not_fit_leaves_its_mark_to_the_one_before(
    *, largest: bool, passes_marks: bool, expected: list[tuple[int | None, bool]]
) -> None:
    """Or to a row of nulls, where marks are passed on: else the next job would take two windows for one."""
    output = pa.schema([("n", pa.int64())])
    columns = pa.schema([("v", pa.int64())])
    spec = JobSpec(
        window=Tumbling(Count(2), passes_marks=passes_marks),
        keys=pa.schema([]),
        columns=columns,
        operator=Means(largest=largest),
        output=output,
    )
    done = KeyGroupRunner(spec, MemoryStore()).run([Rows(pa.table({"v": [1, 3, 2, 3, 4, 6]}, schema=columns))])
    assert done.results is not None
    assert done.rejected is not None
    assert [(row["n"], row["window_mark"]) for row in done.results.to_pylist()] == expected
    assert done.rejected.num_rows == 1
